// How long the main threads of pages are busy at a time, from the browser's own trace. A task's wall time counts from when it
// began until it ended, and so holds what the machine gave to others meanwhile; its CPU time is what it took itself.

/** Tasks with their parts; marks, by which a page is told from another. */
const CATEGORIES = ['disabled-by-default-devtools.timeline', 'devtools.timeline', 'blink.user_timing']
const MARK = 'sluice bench: '
/** Shorter ones are not kept: over ten minutes there are a million. */
export const KEPT_MS = 16

/**
 * Traces what pages do until `stop()`, which answers their tasks, for each page by the name it was given.
 *
 * @param pages `[{ name, page }]`, of one browser.
 */
export async function watchMainThreads(browser, pages) {
  const cdp = await browser.newBrowserCDPSession()
  await cdp.send('Tracing.start', {
    transferMode: 'ReturnAsStream',
    traceConfig: {
      recordMode: 'recordUntilFull',
      traceBufferSizeInKb: 400_000,
      includedCategories: CATEGORIES,
      excludedCategories: ['*'],
    },
  })
  return async function stop() {
    for (const { name, page } of pages) await page.evaluate(markPage, MARK + name)
    const complete = new Promise((resolve) => cdp.once('Tracing.tracingComplete', resolve))
    await cdp.send('Tracing.end')
    const { stream, dataLossOccurred } = await complete
    if (dataLossOccurred) throw new Error('the trace was too long for its buffer: watch for a shorter time')
    const parts = []
    for (let eof = false; !eof; ) {
      const read = await cdp.send('IO.read', { handle: stream })
      parts.push(read.data)
      eof = read.eof
    }
    await cdp.send('IO.close', { handle: stream })
    await cdp.detach()
    const { traceEvents } = JSON.parse(parts.join(''))
    return new Map(pages.map(({ name }) => [name, tasksOf(traceEvents, name)]))
  }
}

/** Runs in the page. */
function markPage(text) {
  performance.mark(text)
  performance.clearMarks(text)
}

function tasksOf(events, name) {
  const mark = events.find((each) => each.name === MARK + name)
  if (mark === undefined) throw new Error(`the trace has nothing of the page ${name}`)
  const own = events.filter(({ pid, tid, ph }) => pid === mark.pid && tid === mark.tid && ph === 'X')
  return own
    .filter((each) => each.name === 'RunTask' && each.dur >= KEPT_MS * 1000)
    .map((task) => ({
      wallMs: task.dur / 1000,
      cpuMs: (task.tdur ?? task.dur) / 1000,
      parts: partsOf(task, own),
    }))
}

/** What a task did, by CPU time without that of what it called: `{ FunctionCall: 31, Layout: 9 }`. */
function partsOf(task, events) {
  const inside = events
    .filter(({ ts, dur }) => ts >= task.ts && ts + dur <= task.ts + task.dur)
    .sort((a, b) => a.ts - b.ts || b.dur - a.dur)
  const open = []
  const sums = {}
  for (const each of inside) {
    while (open.length > 0 && open.at(-1).ts + open.at(-1).dur < each.ts + each.dur) open.pop()
    const cpu = each.tdur ?? 0
    sums[each.name] = (sums[each.name] ?? 0) + cpu
    if (open.length > 0) sums[open.at(-1).name] -= cpu
    open.push(each)
  }
  return sums
}

/** The longest by either clock, and how many took longer than `limitMs` by either. */
export function sumUp(tasks, limitMs) {
  return {
    wallMs: Math.max(0, ...tasks.map(({ wallMs }) => wallMs)),
    cpuMs: Math.max(0, ...tasks.map(({ cpuMs }) => cpuMs)),
    longer: tasks.filter(({ wallMs }) => wallMs >= limitMs).length,
    longerCpu: tasks.filter(({ cpuMs }) => cpuMs >= limitMs).length,
    worst: tasks.toSorted((a, b) => b.wallMs - a.wallMs)[0],
  }
}

/** `wall 182 ms, of it CPU 41: FunctionCall 22, Layout 9, MinorGC 4`. */
export function taskWords({ wallMs, cpuMs, parts }) {
  const most = Object.entries(parts)
    .toSorted(([, a], [, b]) => b - a)
    .slice(0, 4)
    .filter(([, us]) => us >= 1000)
    .map(([name, us]) => `${name} ${Math.round(us / 1000)}`)
  return `wall ${Math.round(wallMs)} ms, of it CPU ${Math.round(cpuMs)}: ${most.join(', ')}`
}
