#!/bin/sh
# Input { references, bases }: makes FASTA files, the same each time. Result { folder, files }.
set -eu
out=$(mktemp -d "${TMPDIR:-/tmp}/bgzip-XXXXXX")
node -e '
  const { readFileSync, writeFileSync } = require("fs")
  const { references, bases } = JSON.parse(readFileSync(0, "utf8"))
  const folder = process.argv[1]
  let seed = 1
  const base = () => "ACGT"[((seed = (seed * 48271) % 2147483647) >> 8) & 3]
  const files = Array.from({ length: references }, (_, reference) => {
    const lines = Array.from({ length: Math.ceil(bases / 60) }, (_, line) =>
      Array.from({ length: Math.min(60, bases - line * 60) }, base).join(""))
    const file = `${folder}/ref${reference + 1}.fa`
    writeFileSync(file, `>ref${reference + 1}\n${lines.join("\n")}\n`)
    return file
  })
  writeFileSync(process.env.SLUICE_RESULT, JSON.stringify({ folder, files }))
' "$out"
