#!/bin/sh
# Input { file }: counts its words into FILE.counts, sorted by word. The result is that file.
set -eu
export LC_ALL=C
file=$(node -p "JSON.parse(require('fs').readFileSync(0, 'utf8')).file")
echo "::progress 0.2 reading"
tr -cs '[:alpha:]' '\n' < "$file" | tr '[:upper:]' '[:lower:]' | sed '/^$/d' > "$file.words"
echo "::progress 0.6 counting $(wc -l < "$file.words") words"
sort "$file.words" | uniq -c | awk '{ print $2, $1 }' > "$file.counts"
printf '"%s.counts"' "$file" > "$SLUICE_RESULT"
