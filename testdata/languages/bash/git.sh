# A repository of one's own.
set -e
git init -q -b main repo && cd repo
git config user.name "A B" && git config user.email a@example.org
for i in 1 2 3; do
  echo "line $i" >> file && git add file && git commit -q -m "commit $i"
done
git log --format='%an %s'
git checkout -q -b other HEAD~1 && echo other > second && git add . && git commit -q -m other
git merge -q -m merge main && git log --oneline --merges | wc -l
git tag -a -m "first" v1 && git describe
git diff --stat v1~1 v1 | tail -n 1
echo changed > file && git stash -q && git stash pop -q && git status --short
git gc -q && git fsck --no-dangling && git count-objects -v | grep ^packs
git clone -q . ../clone && cd ../clone && git branch --show-current && cat second
git grep -c line
git archive HEAD | tar t
git blame -s second | cut -d ')' -f 2
