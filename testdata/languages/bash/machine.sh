# What a script sees of its machine is the cell.
set -eu
echo "processors $(nproc) $(grep -c ^processor /proc/cpuinfo)"
free -m | awk '/^Mem:/ { print "memory", $2, $4 <= $2 } /^Swap:/ { print "swap", $2 }'
awk '/MemTotal/ { print "meminfo", $2 / 1024 }' /proc/meminfo
uptime | grep -q 'load average: 0.00, 0.00, 0.00' && echo "no load"
uname -n
cat /etc/hostname /etc/timezone
ulimit -c
ulimit -n
env | cut -d = -f 1 | sort | grep -v CASE_MARK | paste -sd ' '
ls / 2>&1 || true
