#!/bin/sh
# Input { folder, parts }: cuts all *.md below the folder into files of whole lines. Result { folder, files }.
set -eu
input=$(cat)
field() { printf '%s' "$input" | node -p "JSON.parse(require('fs').readFileSync(0, 'utf8')).$1"; }
here=$(dirname "$0")
texts=$(cd "$here" && cd "$(field folder)" && pwd)
# Not in the workdir: that is removed when this program ends.
out=$(mktemp -d "${TMPDIR:-/tmp}/word-count-XXXXXX")
find "$texts" -name '*.md' -type f -exec cat {} + > "$out/all"
split -n "l/$(field parts)" "$out/all" "$out/part-"
rm "$out/all"
echo "texts of $texts are in $out"
node -e '
  const { readdirSync, writeFileSync } = require("fs")
  const [folder] = process.argv.slice(1)
  const files = readdirSync(folder).sort().map((name) => folder + "/" + name)
  writeFileSync(process.env.SLUICE_RESULT, JSON.stringify({ folder, files }))
' "$out"
