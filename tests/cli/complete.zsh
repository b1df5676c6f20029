# complete.zsh FOLDER WORDS: prints the line that zsh makes of `stridec WORDS` and the key Tab, with FOLDER/_stridec loaded.
zmodload zsh/zpty
zpty shell zsh -f -i
# A line is answered when its last word is back; the quotes keep the echo of the command from being taken for it.
say() { zpty -w shell "$1; print an''swered"; zpty -r shell seen '*answered'$'\r\n*'; }
say "PS1= PS2= fpath=(${(q)1} \$fpath); unsetopt zle_bracketed_paste prompt_sp; autoload -Uz compinit; compinit -D -u"
say "bindkey '^I' complete-word; report() { print -r -- \"<\$BUFFER>\"; zle kill-buffer; }; zle -N report; bindkey '^X' report"
zpty -w -n shell "stridec $2"$'\t'$'\x18'
zpty -r shell seen '*<stridec*>*'
print -r -- "${${seen##*<}%%>*}"
zpty -d shell
