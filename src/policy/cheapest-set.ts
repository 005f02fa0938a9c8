/** An item that may be chosen: the amount that it frees, and what choosing it costs. */
export interface Candidate<T> {
  readonly item: T
  readonly amount: number
  readonly cost: number
}

/** Comparing 2^10 sets takes 20 microseconds, and hardly any device holds more than ten models. */
const MAX_EXACT = 10

/**
 * Finds the cheapest set that frees at least `deficit`; of equally cheap sets, the one that frees least. Returns `undefined` when all candidates
 * together free too little.
 *
 * The result is exact for up to ten candidates. For more, it takes candidates by cost per amount and then drops those that are not needed.
 */
export function cheapestSet<T>(
  candidates: readonly Candidate<T>[],
  deficit: number,
): { readonly chosen: readonly Candidate<T>[]; readonly cost: number } | undefined {
  let total = 0
  for (const { amount } of candidates) total += amount
  if (total < deficit) return undefined
  const chosen =
    candidates.length <= MAX_EXACT ? exactSet(candidates, deficit) : greedySet(candidates, deficit)
  return { chosen, cost: chosen.reduce((sum, { cost }) => sum + cost, 0) }
}

function exactSet<T>(candidates: readonly Candidate<T>[], deficit: number): Candidate<T>[] {
  let best = 0
  let bestCost = Number.POSITIVE_INFINITY
  let bestAmount = Number.POSITIVE_INFINITY
  for (let set = 0; set < 1 << candidates.length; set++) {
    let amount = 0
    let cost = 0
    for (let index = 0; index < candidates.length; index++) {
      if ((set & (1 << index)) === 0) continue
      amount += candidates[index]!.amount
      cost += candidates[index]!.cost
    }
    if (amount < deficit) continue
    if (cost < bestCost || (cost === bestCost && amount < bestAmount)) {
      best = set
      bestCost = cost
      bestAmount = amount
    }
  }
  return candidates.filter((_, index) => (best & (1 << index)) !== 0)
}

function greedySet<T>(candidates: readonly Candidate<T>[], deficit: number): Candidate<T>[] {
  const cheapFirst = [...candidates].sort((one, other) => one.cost * other.amount - other.cost * one.amount)
  const chosen: Candidate<T>[] = []
  let amount = 0
  for (const candidate of cheapFirst) {
    if (amount >= deficit) break
    chosen.push(candidate)
    amount += candidate.amount
  }
  // Drops the most expensive first: a small candidate chosen early is not needed once a large one is chosen.
  for (const candidate of [...chosen].sort((one, other) => other.cost - one.cost)) {
    if (amount - candidate.amount < deficit) continue
    chosen.splice(chosen.indexOf(candidate), 1)
    amount -= candidate.amount
  }
  return chosen
}
