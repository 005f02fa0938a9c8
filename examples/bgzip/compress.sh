#!/bin/sh
# Input { file }: compresses it in blocks, indexes it, and reads ten bases from its middle through the index.
set -eu
file=$(node -p "JSON.parse(require('fs').readFileSync(0, 'utf8')).file")
echo "::progress 0.1 compressing"
bgzip --force "$file"
echo "::progress 0.6 indexing"
samtools faidx "$file.gz"
read -r name length _ < "$file.gz.fai"
middle=$((length / 2))
bases=$(samtools faidx "$file.gz" "$name:$((middle + 1))-$((middle + 10))" | tail -n 1)
printf '{"name":"%s","length":%d,"bytes":%d,"middle":"%s"}' "$name" "$length" "$(wc -c < "$file.gz")" "$bases" > "$SLUICE_RESULT"
