#!/bin/sh
# Input { files }: adds up the counts. Result { words, different, top }.
set -eu
node -p "JSON.parse(require('fs').readFileSync(0, 'utf8')).files.join('\n')" > files
# They are sorted already: merging them needs no memory.
tr '\n' '\0' < files | LC_ALL=C sort -m --files0-from=- |
  awk '$1 != word { if (NR > 1) print count, word; word = $1; count = 0 } { count += $2 } END { print count, word }' |
  LC_ALL=C sort -k1,1nr -k2,2 > counts
node -e '
  const { readFileSync, writeFileSync } = require("fs")
  const counts = readFileSync("counts", "utf8").trim().split("\n").map((line) => line.split(" "))
  const top = counts.slice(0, 5).map(([count, word]) => ({ word, count: Number(count) }))
  const words = counts.reduce((sum, [count]) => sum + Number(count), 0)
  writeFileSync(process.env.SLUICE_RESULT, JSON.stringify({ words, different: counts.length, top }))
'
