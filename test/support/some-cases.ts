/**
 * Some of the cases, drawn for each run: the suite has to end in time. All of them with `SLUICE_TEST_CASES=all`, as `npm run test:long`
 * has it. A case belongs into the title of its test, so that a failure can be repeated.
 */
export function someCases<T>(cases: readonly T[], count: number): T[] {
  if (process.env.SLUICE_TEST_CASES === 'all') return [...cases]
  const left = [...cases]
  while (left.length > count) left.splice(Math.floor(Math.random() * left.length), 1)
  return left
}
