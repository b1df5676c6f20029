#!/bin/bash
# report.sh BUILD: `stridec report` and `stridec inspect --svg`: pages and pictures are valid and hold what they should;
# a page in headless Chromium, where there is one, is kept as BUILD/log/report.png. Variables: MPICC; $san: see
# tests/check.sh.
build=$(cd "$1" && pwd) work=$(mktemp -d)
cd "$(dirname "$0")/../.." || exit 1
trap 'rm -rf "$work"' EXIT
export STRIDEC_CACHE_DIR=$work/cache
stridec=$build/stridec sample=tests/cli/report.json page=$work/job.html
. tests/results.sh
fails() {   # STATUS MESSAGE ARGUMENT...
    local status=$1 message=$2 got
    shift 2
    "$stridec" "$@"
    got=$?
    [ "$got" -eq "$status" ] && grep -qF -- "$message" "$work/check.out"
}
holds() { grep -qE -- "$2" "$1"; }
lacks() { [ -s "$1" ] && ! grep -E -- "$2" "$1"; }

# ---- pages ----
cp "$sample" "$work/job.json"
check "a page, named after its file" sh -c '"$1" report "$0/job.json" && [ -s "$0/job.html" ]' "$work" "$stridec"
check "a page from standard input" sh -c '"$1" report - -o "$0/in.html" <"$2" && cmp "$0/in.html" "$0/job.html"' \
    "$work" "$stridec" "$sample"
check "standard input without a name" fails 2 'standard input needs -o' report -
check "no file" fails 2 'which file?' report
check "two files" fails 2 'one file at a time' report a b
check "a file that is not there" fails 1 "$work/gone.json: No such file or directory" report "$work/gone.json"
check "a folder" fails 1 "$work: Is a directory" report "$work" -o "$work/folder.html"
check "a page that can't be written" fails 1 "can't be written" report "$sample" -o "$work/gone/job.html"
check "a page needs no other file" lacks "$page" '(src|href) *=|url\(|@import|https?://'
check "a page runs no code, whatever a type is called" lacks "$page" '<script|<b>| on[a-z]+='
check "names are text" holds "$page" \
    '<strong>&lt;script&gt;alert\(1\)&lt;/script&gt;, face &quot;xz&quot; &amp; more</strong>'
check "the program's name too" holds "$page" '<h1>./halo3d 256 &lt;b&gt;&amp;amp;</h1>'
check "bytes by way" holds "$page" \
    '>zerocopy</th><td class="n">32,000</td><td class="n">48.0 GiB</td><td class="n">84.2 %</td>'
check "and by reason" holds "$page" '>not in built-in figures</th><td class="n">4,210</td><td class="n">40.1 MiB</td>'
check "rates against the GPU's" holds "$page" '1,320 GB/s<br><svg.*65.7 % of 2,011 GB/s'
check "who sent to whom" holds "$page" '<td class="n">0</td><td class="n">1</td><td class="n">8.38 GiB</td>'
check "what was left to the MPI" holds "$page" \
    '<td>too short to gain by memory of the node</td><td>struct.3 blocks.</td>'
check "what was not counted" holds "$page" 'used too seldom to be read</td><td></td><td class="n">uncounted</td>'
check "what would help" holds "$page" '<strong>The ways were chosen by built-in figures</strong>'
check "as long as it is needed" holds "$page" '<strong>Packing was far from what this GPU can do</strong>'
check "types of one form are one" holds "$page" '<strong>column 1, column 2</strong>.*2 types of this form'
check "with the sums of all" holds "$page" \
    'oneshot with 512 B, 4 calls.*<td class="n">4</td><td class="n">2.00 KiB</td><td class="rate">0.80 GB/s'
check "and each remark once" [ "$(grep -o 'a remark &lt;i&gt;' "$page" | wc -l)" -eq 1 ]
[ "$(grep -o '<svg class="layout"' "$page" | wc -l)" -eq 6 ]
check "a picture of each layout that is known" test $? -eq 0
export PYTHONDONTWRITEBYTECODE=1
python3 tests/cli/report.py "$stridec" "$work" || failed=1

# ---- pictures ----
"$stridec" inspect 's(3,16,d(8))' --svg >"$work/b.svg"
check "a picture in a file" sh -c '"$1" inspect "s(3,16,d(8))" --svg -o "$0/a.svg" && cmp "$0/a.svg" "$0/b.svg"' \
    "$work" "$stridec"
check "a picture is of one type" fails 2 '--svg draws one type' inspect spec/halo.lua --svg
check "-o is for pictures" fails 2 '-o is for --svg' inspect 'd(8)' -o "$work/x"
python3 tests/cli/pictures.py "$stridec" || failed=1

# ---- a run ----
if "$stridec" run --help | grep -q 'json:'; then
    check "statistics of a run" tests/mpirun.sh -n 2 ${san:-} ${san:+ASAN_OPTIONS=detect_leaks=0} "$stridec" run --sim \
        --stats=json:"$work/run.json" -- "$build/examples/halo3d" 16 2 2
    check "its page" "$stridec" report "$work/run.json"
    check "its types and their layouts" holds "$work/run.html" '<svg class="layout"'
else
    echo "NO STATISTICS as JSON in this stridec: pages are made of a sample alone"
fi

# ---- a browser ----
browser=
for name in chromium chromium-browser google-chrome; do
    [ -n "$browser" ] || { timeout 30 "$name" --version >/dev/null 2>&1 && browser=$name; }
done
browse() {   # OPTION...: of the page
    timeout 60 "$browser" --headless --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir="$work/profile" \
        --enable-logging=stderr "$@" "file://$page"
}
if [ -z "$browser" ]; then
    echo "NO BROWSER chromium is not installed: the page was not opened"
elif ! browse --dump-dom >"$work/dom" 2>"$work/console" || [ ! -s "$work/dom" ]; then
    echo "NO BROWSER $browser does not start here: the page was not opened"
else
    check "a browser has no complaint" sh -c '! grep CONSOLE "$0"' "$work/console"
    check "it finds the tables" [ "$(grep -o '<table>' "$work/dom" | wc -l)" -eq 4 ]
    check "and the pictures" [ "$(grep -oE '<svg class="(layout|heat|bar )"' "$work/dom" | wc -l)" -ge 15 ]
    check "and no script" lacks "$work/dom" '<script'
    mkdir -p "$build/log"
    cp "$page" "$build/log/report.html"
    check "a picture of the page, kept as $build/log/report.png" sh -c '"$@" && [ -s "$0" ]' "$build/log/report.png" \
        timeout 60 "$browser" --headless --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir="$work/profile" \
        --window-size=1250,3000 --screenshot="$build/log/report.png" "file://$page"
fi
exit $failed
