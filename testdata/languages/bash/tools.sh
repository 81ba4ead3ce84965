# What scripts call: sort, find, xargs, sed, awk, tar, gzip, bc-like sums, dates.
set -euo pipefail
seq 1 1500000 | shuf --random-source=<(yes) > big
echo "size $(($(stat -c %s big) / 1000000)) MB"
sort -n big | md5sum | cut -c 1-8
sort -S 1M --parallel=2 big | tail -n 1
sort -c -n <(seq 1000) && echo sorted
mkdir -p a/b/c && touch a/{1,2}.txt a/b/3.txt "a/b/c/4 5.txt"
find a -name '*.txt' -print0 | sort -z | xargs -0 -n 2 echo found
find a -type f -exec basename {} \; | sort | paste -sd ,
tar czf t.tgz a && mkdir x && tar xzf t.tgz -C x && (cd x && find . -type f | wc -l)
gzip -k big && gunzip -t big.gz && zcat big.gz | cmp - big && echo same
cp -a a copy && ln -s copy link && ls -l link | awk '{ print $9, $10, $11 }'
chmod 640 a/1.txt && stat -c '%A %U %G' a/1.txt
sed -i 's/^1$/one/; $d' big && head -c 5 /dev/zero | tr '\0' z && echo
date -u -d '@86400' +%F && TZ=Asia/Tokyo date -d '@0' +%H:%M
echo "$(id -un) $(whoami) $(hostname) $(pwd) $(umask)"
awk 'BEGIN { printf "%.3f %s\n", sqrt(2), toupper("awk") }'
printf 'b 2\na 1\n' | sort | join - <(printf 'a x\nb y\n')
echo 'YWJj' | base64 -d && echo && echo abc | sha1sum | cut -c 1-8
comm -12 <(seq 1 5) <(seq 4 8) | tr '\n' ' ' && echo
split -l 500000 big part. && ls part.* | wc -l
(flock -n 9 && echo locked) 9> lock
dd if=/dev/zero of=zeros bs=1M count=4 status=none && du -k zeros | cut -f 1
df --output=size -B M /box | tail -n 1 | tr -d ' '
ps -o comm= -p $$
