import { lazy, Suspense } from 'react'
import './sparkline.css'

const Chart = lazy(() => import('./chart.tsx').then(({ Chart }) => ({ default: Chart })))

export interface Line {
  readonly label: string
  readonly tone: 'running' | 'waiting' | 'failed' | 'accent' | 'completed' | 'retrying'
  /** One for each of `times`; `null` where nobody measured. */
  readonly values: readonly (number | null)[]
}

/** A small line over time, without axes. Its place is kept while the chart library loads. */
export function Sparkline(props: {
  label: string
  times: readonly Date[]
  lines: readonly Line[]
  height?: number
  /** With axes and a legend. */
  axes?: boolean
  /** How much time the width stands for; without it, what there is fills it. */
  spanMs?: number
}) {
  const { height = props.axes ? 180 : 28 } = props
  return (
    <div className="sparkline" style={{ height }} role="img" aria-label={props.label}>
      {props.times.length > 1 && (
        <Suspense fallback={<span data-loading="" />}>
          <Chart {...props} height={height} />
        </Suspense>
      )}
    </div>
  )
}
