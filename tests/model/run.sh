#!/bin/bash
# run.sh [NAME...]: checks the models of this folder with spin (`make model`). One line a check, "ok NAME" or
# "not ok NAME: why"; the last line adds them up. A scenario passes where spin looks at all states and finds no error.
# A fault, put into a model by a macro, passes where spin finds it. With NAMEs: only checks that have one in their line.
# CC: the compiler. MODEL_OUT: a folder for the trails of errors; else they are not kept.
cd "$(dirname "$0")" || exit 1
here=$PWD work=$(mktemp -d) only=$*
trap 'rm -rf "$work"' EXIT
passed=0 failed=0
MEGABYTES=1800 DEPTH=10000 SECONDS_EACH=120

if ! command -v spin >/dev/null; then
    echo "not ok models: spin is missing: apt-get install spin"
    echo "0 passed, 1 failed"
    exit 1
fi
cd "$work" || exit 1

result() {   # NAME [WHY]
    if [ -z "${2:-}" ]; then echo "ok $1"; passed=$((passed + 1)); else echo "not ok $1: $2"; failed=$((failed + 1)); fi
}

wanted() {
    local o
    [ -n "$only" ] || return 0
    for o in $only; do case $1 in *"$o"*) return 0 ;; esac; done
    return 1
}

# search MODEL KIND MACRO...: runs spin, whose words go to `said`. KIND: end (assertions, and processes that wait for
# ever), cycle (endless runs), ltl:NAME (a formula).
search() {
    local model=$1 kind=$2 flags=-DSAFETY options=''
    shift 2
    case $kind in
    cycle) flags=-DNP options=-l ;;
    ltl:*) flags='' options="-a -N ${kind#ltl:}" ;;
    esac
    rm -f pan* ./*.trail
    # shellcheck disable=SC2086
    spin -a "$@" "$here/$model.pml" >said 2>&1 &&
        ${CC:-gcc} -w ${OPTIMIZED:-} $flags -DMEMLIM=$MEGABYTES -o pan pan.c >>said 2>&1 &&
        timeout $SECONDS_EACH ./pan -m$DEPTH $options >>said 2>&1
}

# The first lines of what went wrong, and the run that shows it.
show() {
    local model=$1
    shift
    grep -E '^pan|rror' said | head -5 | sed 's/^/    /'
    [ -e "$model.pml.trail" ] || return
    spin -t -p -k "$model.pml.trail" "$@" "$here/$model.pml" 2>/dev/null | grep -v ':init:' >trail
    [ -z "${MODEL_OUT:-}" ] || { mkdir -p "$MODEL_OUT" && cp trail "$MODEL_OUT/$model.$((passed + failed))"; }
    tail -40 trail | sed 's/^/    /'
}

# scenario NAME MODEL KIND MACRO...   OPTIMIZED=-O1 pays from a million states on.
scenario() {
    local name=$1 states
    shift
    wanted "$name" || return
    search "$@"
    states=$(sed -n 's/^ *\([0-9]*\) states, stored.*/\1/p' said)
    if grep -q 'errors: 0' said && ! grep -qE 'not completed|too small|out of memory|hash table full' said; then
        result "$name ($states states)"
    else
        result "$name" "$(grep -m1 -E '^pan:1|not completed|too small|memory|rror' said || echo 'spin did not end')"
        show "$1" "${@:3}"
    fi
}

# fault NAME ERROR MODEL KIND MACRO...: spin finds this error.
fault() {
    local name=$1 error=$2
    shift 2
    wanted "$name" || return
    search "$@"
    if grep -q "^pan:1: $error" said; then result "$name"
    else result "$name" "not found"; grep -E '^pan|rror' said | head -5 | sed 's/^/    /'
    fi
    [ -z "${MODEL_OUT:-}" ] || show "$1" "${@:3}" >/dev/null
}

ASSERTION='assertion violated' STUCK='invalid end state' ENDLESS='non-progress cycle'

#
# Names: the states, in their order, are those of enum slot_state; each function that a model names is in runtime/.
#

# Inlines that stand for no function.
MODELS_OWN=' read_payload receive_returns send_returns retire '

states_differ() {
    local of_code of_model
    of_code=$(sed -n '/^enum slot_state/,/^}/s/^ *SLOT_\([A-Z]*\).*/\1/p' "$here/../../runtime/node/segment.h" | xargs)
    of_model=$(sed -n 's/^mtype = { \(FREE.*\) }.*/\1/p' "$here/rndv.pml" | tr -d ,)
    [ "$of_code" = "$of_model" ] || echo "segment.h: $of_code; rndv.pml: $of_model"
}

names_missing() {
    local name
    {
        sed -n 's/^inline \([a-z_]*\)(.*/\1/p' "$here"/*.pml
        grep -hE '/\*|^ \*' "$here"/*.pml | sed 's/.*\/\*//' | grep -oE '\b[a-z]+(_[a-z]+)+\b'
    } | sort -u | while read -r name; do
        case $MODELS_OWN in *" $name "*) continue ;; esac
        case $name in *_*) grep -rqw --include='*.[ch]' "$name" "$here/../../runtime" || echo "$name" ;; esac
    done
}

names() {   # NAME WHAT IS WRONG
    wanted "$1" || return
    result "$1" "$2"
}

names "names: states" "$(states_differ)"
names "names: functions" "$(names_missing | tr '\n' ' ')"

#
# What holds.
#

OPTIMIZED=-O1 scenario "rendezvous: one message, whatever happens to it" \
    rndv end -DMSGS=1 -DDIES=3 -DREFUSES -DSHORT -DCANCELS -DNOMEM
scenario "rendezvous: one message, receives shorter than the header, sends cancelled and freed" \
    rndv end -DMSGS=1 -DDIES=3 -DSHORTEST -DCANCELS -DFORGETS
OPTIMIZED=-O1 scenario "rendezvous: two messages in one slot, refused, the receiver may die" \
    rndv end -DSLOTS=1 -DREFUSES -DDIES=2
scenario "rendezvous: two messages in one slot, the sender may die" rndv end -DSLOTS=1 -DDIES=1
scenario "rendezvous: two messages in one slot, too long or cancelled" rndv end -DSLOTS=1 -DSHORT -DCANCELS
scenario "rendezvous: two messages in two slots, no memory to move them" rndv end -DSLOTS=2 -DNOMEM
OPTIMIZED=-O1 scenario "rendezvous: two messages received together, refused or too long" \
    rndv end -DSLOTS=2 -DWAITALL -DREFUSES -DSHORT
OPTIMIZED=-O1 scenario "rendezvous: no endless run" rndv cycle -DMSGS=1 -DDIES=3 -DREFUSES -DSHORT -DNOMEM
OPTIMIZED=-O1 scenario "rendezvous: every call ends" rndv ltl:ends -DLTL -DMSGS=1 -DDIES=3 -DREFUSES -DNOMEM
scenario "rendezvous: a refusal is answered" rndv ltl:answered -DLTL -DMSGS=1 -DDIES=3 -DREFUSES -DNOMEM
scenario "short RTS headers: nobody gets one who does not look" rts_short end
scenario "short RTS headers: no endless run" rts_short cycle -DEACH=1
scenario "synchronous sends: a probe is no match" probed end
scenario "packing while it is read" push end
scenario "packing while it is read: no endless run" push cycle
scenario "windows: a writer is alone, and every lock is had" window end
scenario "windows: every post has its epoch" window end -DGROUPS
scenario "rooms: nothing is overwritten before it was read" room end
scenario "rooms: no endless run" room cycle
scenario "slots: what is kept for a persistent send is there" slots end
scenario "slots: no endless run" slots cycle
scenario "ranks agree without a promise, whoever runs stridec" marks end

#
# Faults.
#

fault "found: the sender frees the slot before DONE" "$ASSERTION" rndv end -DFAULT_FREES_EARLY
fault "found: the sender ends while the receiver reads" "$ASSERTION" rndv end -DMSGS=1 -DFAULT_ENDS_WHILE_TAKEN
fault "found: the sender moves the payload without HELD" "$ASSERTION" rndv end -DMSGS=1 -DFAULT_MOVES_WITHOUT_HELD
fault "found: the sender tries again and again to move" "$ENDLESS" rndv cycle -DMSGS=1 -DNOMEM -DFAULT_MOVES_AGAIN
fault "found: the sender never asks who lives" "$STUCK" \
    rndv end -DMSGS=1 -DNOMEM -DDIES=2 -DFAULT_NEVER_ASKS_WHO_LIVES
fault "found: the receiver does not look again after TAKEN" "$ASSERTION" rndv end -DMSGS=1 -DFAULT_LOOKS_BEFORE_TAKEN
fault "found: the receiver says DONE before it reads" "$ASSERTION" rndv end -DMSGS=1 -DFAULT_DONE_EARLY
fault "found: the receiver keeps the slot of what is too long" "$STUCK" \
    rndv end -DMSGS=1 -DNOMEM -DSHORT -DFAULT_KEEPS_WHAT_IS_LONG
fault "found: the receiver does not wake the progress thread" "$STUCK" rndv end -DMSGS=1 -DREFUSES -DFAULT_NEVER_CALLS
fault "found: short RTS headers are counted after asking" "$ASSERTION" rts_short end -DFAULT_COUNTS_AFTER_ASKING
fault "found: the count is looked at before refusing" "$ASSERTION" rts_short end -DFAULT_LOOKS_BEFORE_REFUSING
fault "found: the slot is looked at before the probes" "$ASSERTION" probed end -DFAULT_LOOKS_AT_THE_SLOT_FIRST
fault "found: a probe ends before it tells" "$ASSERTION" probed end -DFAULT_TELLS_AFTERWARDS
fault "found: all messages have one mark" "$ASSERTION" push end -DFAULT_SAME_MARK
fault "found: a piece is told of before it is packed" "$ASSERTION" push end -DFAULT_TELLS_BEFORE_PACKING
fault "found: packing that fails is not told" "$STUCK" push end -DFAULT_FAILS_SILENTLY
fault "found: the receiver takes -1 for all" "$ASSERTION" push end -DFAULT_READS_WHATEVER_COMES
fault "found: a writer looks for other writers alone" "$STUCK" window end -DFAULT_LOOKS_FOR_WRITERS
fault "found: a reader that ends takes back what a writer wants" "$STUCK" window end -DFAULT_READER_WANTS
fault "found: a start counts no posts" "$ASSERTION" window end -DGROUPS -DFAULT_COUNTS_NO_POSTS
fault "found: the ring is written without a wait" "$ASSERTION" room end -DFAULT_WAITS_FOR_NOTHING
fault "found: the turn is looked at before what is ready" "$ASSERTION" room end -DFAULT_TURN_BEFORE_READY
fault "found: pieces are told to be read before they are" "$ASSERTION" room end -DFAULT_EATS_BEFORE_READING
fault "found: a mark is seen from one side alone" "$ASSERTION" marks end -DFAULT_ONE_SIDED
fault "found: ranks without a mark are sent words" "$ASSERTION" marks end -DFAULT_STRANGERS
fault "found: a slot is kept that is not free" "$ASSERTION" slots end -DFAULT_PROMISES_WHAT_IS_NOT_FREE
fault "found: a slot is taken that is kept" "$ASSERTION" slots end -DFAULT_TAKES_WHAT_IS_PROMISED

# The last three need both memory and room for files to be out: runtime/ has no way there. Where one is found, its macros
# become a scenario.

fault "found: the progress thread misses its end (attend)" "$STUCK" \
    rndv end -DMSGS=1 -DFAULT_MISSES_THE_END
fault "found: a refusal is answered after the send has ended, its receiver dead (rndv_send_end)" \
    "$ASSERTION" rndv end -DMSGS=1 -DREFUSES -DDIES=2 -DFAULT_LEAVES_TO_THE_DEAD
fault "found: a slot is given back in the middle of spill (linger)" "$ASSERTION" \
    rndv end -DMSGS=1 -DREFUSES -DDIES=2 -DFAULT_ENDS_WHAT_IS_HELD
fault "found, in the code: without memory and files, a send waits for a receive that waits for the next send (MPI_Waitall)" \
    "$STUCK" rndv end -DSLOTS=2 -DNOMEM -DWAITALL
fault "found, in the code: without memory and files, a send waits for a receive that the MPI has truncated" "$STUCK" \
    rndv end -DMSGS=1 -DNOMEM -DSHORTEST
fault "found, in the code: without memory and files, MPI_Finalize waits for a send that was cancelled (finish)" "$STUCK" \
    rndv end -DMSGS=1 -DNOMEM -DCANCELS -DFORGETS

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
