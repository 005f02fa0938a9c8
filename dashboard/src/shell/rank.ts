/** Something that the search offers: where it stands, what it says, and what choosing it does. */
export interface Finding {
  readonly id: string
  readonly group: string
  readonly label: string
  /** Beside the label, and searched too. */
  readonly hint?: string
  /** Offered before anything has been typed. */
  readonly first?: boolean
  readonly run: () => void
}

/** What fits a text, the best of each group first: labels that begin with it, then words that do, then any part. */
export function rank(all: readonly Finding[], text: string): Finding[] {
  const wanted = text.trim().toLowerCase()
  if (wanted === '') return all.filter(({ first }) => first === true)
  const words = wanted.split(/\s+/)
  return all
    .map((finding) => ({ finding, score: scoreOf(finding, wanted, words) }))
    .filter(({ score }) => score > 0)
    .sort((one, other) => other.score - one.score)
    .map(({ finding }) => finding)
}

function scoreOf({ label, hint = '' }: Finding, wanted: string, words: readonly string[]): number {
  const name = label.toLowerCase()
  const all = `${name} ${hint.toLowerCase()}`
  if (name.startsWith(wanted)) return 4
  if (words.every((word) => new RegExp(`(^|[^a-z0-9])${escaped(word)}`).test(name))) return 3
  if (words.every((word) => name.includes(word))) return 2
  return words.every((word) => all.includes(word)) ? 1 : 0
}

function escaped(word: string): string {
  return word.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&')
}
