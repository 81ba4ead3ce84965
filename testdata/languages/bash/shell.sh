# What scripts are made of.
set -euo pipefail
echo "arithmetic $((6 * 7)) $((2 ** 40)) $((0x1f % 7)) $(((5 > 3) ? 1 : 0))"
echo "expansion ${HOME/box/x} ${#PATH} $(printf '%s|' {a..e}) ${USER^^} ${UNSET:-default}"
cat <<EOF
here $((1 + 1)) $(echo document)
EOF
cat <<'EOF'
here $untouched
EOF
tr a-z A-Z <<< "here string"
seq 100 | grep 7 | awk '{ s += $1 } END { print "pipeline", s }'
diff <(printf 'a\nb\n') <(printf 'a\nc\n') | tail -n 1 || true
tee >(wc -c > counted) > copied < <(echo substitution)
until [ -s counted ]; do sleep 0.01; done
echo "process substitution $(cat copied) $(cat counted)"
f=$(mktemp) && d=$(mktemp -d) && echo "mktemp ${f%/*} ${d%/*} $(stat -c %a "$f" "$d" | tr '\n' ' ')"
declare -A map=([one]=1 [two]=2)
list=(x "y z")
echo "arrays ${#map[@]} ${map[two]} ${#list[@]} ${list[1]}"
mapfile -t lines < <(printf 'l1\nl2\n')
echo "mapfile ${lines[*]}"
trap 'echo "caught USR1"' USR1
kill -USR1 $$
(trap 'echo "subshell left with $?"' EXIT; exit 3) || echo "code $?"
sleep 60 & pid=$!
kill $pid
wait $pid || echo "killed $?"
sleep 60 & pid=$!
(exit 5) &
wait -n || echo "first $?"
kill $pid && wait || true
coproc CAT { cat; }
echo through >&"${CAT[1]}"
read -r line <&"${CAT[0]}"
echo "coprocess $line"
timeout 0.1 sleep 60 || echo "timeout $?"
if [[ "a1b2" =~ ([0-9])b([0-9]) ]]; then echo "match ${BASH_REMATCH[1]}${BASH_REMATCH[2]}"; fi
printf '%05.2f %q %(%Y)T\n' 3.14159 "a b" 0
exec 7> file && echo seven >&7 && exec 7>&- && read -r line < file && echo "descriptor $line"
mkfifo pipe && (echo "through a fifo" > pipe &) && cat pipe
echo "arguments $# $1 ${2@Q}"
read -r -d '' everything || true
echo "stdin ${everything@Q}"
set -m && echo "options $-"
