/**
 * The rows of a cycle without the time that it took to find jobs: on a busy machine any cycle may report one.
 */
export function withoutScanTime<
  Row extends { readonly class_id: number | null; readonly report: object | null },
>(rows: readonly Row[]): Row[] {
  return rows.flatMap((row) => {
    if (row.report === null || !('scanMs' in row.report)) return [row]
    const { scanMs, ...report } = row.report
    return Object.keys(report).length === 0 ? [] : [{ ...row, report }]
  })
}
