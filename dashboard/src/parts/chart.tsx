import { useEffect, useRef } from 'react'
import uPlot from 'uplot'
import 'uplot/dist/uPlot.min.css'
import type { Line } from './sparkline.tsx'

/** Draws lines with uPlot. Loaded only where one is shown; the colours are those of the page at the time. */
export function Chart({
  times,
  lines,
  height,
  axes = false,
  spanMs,
}: {
  times: readonly Date[]
  lines: readonly Line[]
  height: number
  axes?: boolean
  spanMs?: number
}) {
  const box = useRef<HTMLDivElement>(null)
  const plot = useRef<uPlot>(undefined)
  const shape = lines.map(({ label, tone }) => `${label} ${tone}`).join('\n')

  // biome-ignore lint/correctness/useExhaustiveDependencies: made anew when what is drawn changes, not with each value
  useEffect(() => {
    const element = box.current
    if (element === null) return
    const colours = getComputedStyle(element)
    const made = new uPlot(
      options(element, lines, { height, axes, spanMs }, colours),
      toData(times, lines),
      element,
    )
    plot.current = made
    const watch = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height }))
    watch.observe(element)
    return () => {
      watch.disconnect()
      made.destroy()
      plot.current = undefined
    }
  }, [shape, height, axes, spanMs])

  useEffect(() => {
    plot.current?.setData(toData(times, lines))
  }, [times, lines])

  return <div ref={box} style={{ height }} />
}

function toData(times: readonly Date[], lines: readonly Line[]): uPlot.AlignedData {
  return [times.map((at) => at.getTime() / 1000), ...lines.map(({ values }) => [...values])]
}

function options(
  element: HTMLElement,
  lines: readonly Line[],
  { height, axes, spanMs }: { height: number; axes: boolean; spanMs: number | undefined },
  colours: CSSStyleDeclaration,
): uPlot.Options {
  // light-dark() is resolved for properties that take colours only, so each is asked through one.
  const colourOf = (name: string) => {
    element.style.color = `var(--${name})`
    const colour = colours.color
    element.style.color = ''
    return colour
  }
  const axis = { stroke: colourOf('text-soft'), grid: { stroke: colourOf('line'), width: 1 }, size: 40 }
  return {
    width: element.clientWidth,
    height,
    legend: { show: false },
    cursor: { show: axes },
    scales: {
      // What is not there yet is left empty: drawn over the whole width, five minutes would look like thirty.
      ...(spanMs !== undefined && {
        x: {
          range: (_plot: uPlot, low: number, high: number) => [Math.min(low, high - spanMs / 1000), high],
        },
      }),
      y: { range: (_plot, _low, high) => [0, Math.max(high, 1)] },
    },
    axes: axes ? [axis, axis] : [{ show: false }, { show: false }],
    padding: axes ? [8, 8, 0, 0] : [2, 0, 2, 0],
    series: [
      {},
      ...lines.map(({ label, tone }) => ({
        label,
        stroke: colourOf(tone),
        width: 1.5,
        points: { show: false },
      })),
    ],
  }
}
