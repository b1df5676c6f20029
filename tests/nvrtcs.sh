#!/bin/bash
# nvrtcs.sh BUILD: what is emitted compiles with other NVRTCs than this machine's, from the Python index: the oldest that stridec
# is for, and the last that knows GPUs older than Turing. They come once, into $FETCHED; where the index can't be reached, that
# is said, and all is ok. With TEST_TURN, a number, one of them.
build=${1:?usage: nvrtcs.sh BUILD}
cd "$(dirname "$0")/.." || exit 1
mkdir -p "$build" && build=$(cd "$build" && pwd)
. tests/fetched.sh
failed=0

# package | version | sha256 of the wheel for x86-64 | library
table() {
    cat <<TABLE
nvidia_cuda_nvrtc_cu11 11.8.89 a8d02f3cba345be56b1ffc3e74d8f61f02bb758dd31b0f20e12277a5a244f756 libnvrtc.so.11.2
nvidia_cuda_nvrtc_cu12 12.9.86 210cf05005a447e29214e9ce50851e83fc5f4358df8b453155d5e1918094dcb4 libnvrtc.so.12
TABLE
}

one() {   # PACKAGE VERSION SHA256 LIBRARY
    local wheel="$1-$2-py3-none-*x86_64.whl" to=$FETCHED/nvrtc-$2
    if ! fetch "$python" wheels "$wheel" "$3" --only-binary :all: "$1==$2"; then
        echo "ok NVRTC $2: left out: the Python index can't be reached: $(tail -1 "$FETCHED/wheels/log")"
        return
    fi
    [ -e "$to/$4" ] || unpack_libraries "$python" "$(find "$FETCHED/wheels" -name "$wheel")" "$to" || return 1
    LD_LIBRARY_PATH=$to TEST_NVRTC=$to/$4 CMOCKA_MESSAGE_OUTPUT=TAP "$build/tests/unit/test_nvrtc" |
        sed -E "s/^(ok|not ok) /\1 NVRTC $2: /"
    return "${PIPESTATUS[0]}"
}

leave_out() { echo "ok NVRTCs of the Python index: left out: $1"; exit 0; }
[ "$(uname -m)" = x86_64 ] || leave_out "known for x86-64 alone"
python=$(python_with pip) || leave_out "no Python with pip"
while read -r package version sum library; do
    one "$package" "$version" "$sum" "$library" </dev/null || failed=1
done < <(table | in_turn)
exit $failed
