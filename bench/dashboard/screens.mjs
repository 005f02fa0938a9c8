// How long each screen takes until it can be used, and how long it is busy at a time while jobs change.
import { setTimeout as pause } from 'node:timers/promises'
import { open, openFresh, takeLongest } from './browser.mjs'
import { KEPT_MS, sumUp, taskWords, watchMainThreads } from './main-thread.mjs'
import { tell } from './report.mjs'

const USABLE_MS = 2000
export const TASK_MS = 100
/** Jobs a second while screens are opened: what a system of this size does on a usual day. */
const OPENING_RATE = 500
const OPENINGS = 3
/** How long each screen is watched at the full rate. */
const WATCH_MS = 3000

/** By name: its address, and what is there once it shows what it is for. */
export const screensOf = (ids) => ({
  now: ['/', '.tile', 'table[aria-label="Lanes"] tbody tr', '.sparkline canvas'],
  lanes: ['/lanes', 'main tbody tr'],
  jobs: ['/jobs', 'table[aria-label="Jobs"] tbody tr'],
  'jobs failed': ['/jobs?tab=failed', 'table[aria-label="Jobs"] tbody tr'],
  'jobs of a task': ['/jobs?tab=completed&task=mail.send', 'table[aria-label="Jobs"] tbody tr'],
  'jobs queued': ['/jobs?tab=queued', 'table[aria-label="Jobs"] tbody tr'],
  'jobs by error': ['/jobs?error=mailbox%20123', 'table[aria-label="Jobs"] tbody tr'],
  'jobs by a tag of none': ['/jobs?tag=nowhere', '~No job matches'],
  'job completed': [`/jobs/${ids.completed}`, '~Timeline', '~Completed'],
  'job running': [`/jobs/${ids.running}`, '~Timeline', '~encoding, part'],
  'job waiting': [`/jobs/${ids.waiting}`, '~nightly', '.why'],
  trace: [`/trace/${ids.child}`, '~answered 503'],
  'workflow graph': [`/workflows/${ids.workflow}`, '.react-flow__node', '.strip-columns span'],
  'workflow tree': [`/workflows/${ids.workflow}?view=tree`, '~items'],
  'workflow waterfall': [`/workflows/${ids.workflow}?view=time`, '.falls li'],
  'fan-out': [`/workflows/${ids.fanOut}`, '.strip-columns span', '.children tbody tr'],
  errors: ['/errors', 'main tbody tr'],
  'errors all': ['/errors?span=all', 'main tbody tr'],
  workers: ['/workers', 'table[aria-label="Workers"] tbody tr'],
  devices: ['/gpu', '.devices > *'],
  approvals: ['/approvals', 'main tbody tr'],
  schedules: ['/schedules', 'main tbody tr'],
  recovery: ['/recovery', 'main tbody tr'],
  access: ['/access', 'main tbody tr'],
  audit: ['/audit', 'main tbody tr'],
})

/** @param wanted Names of screens; without it, all. */
export async function measureScreens({ traffic, ids }, { browser, context, page }, { rate, wanted }) {
  const all = Object.entries(screensOf(ids))
  const screens = wanted === undefined ? all : all.filter(([name]) => wanted.includes(name))
  traffic.set(OPENING_RATE)
  if (wanted === undefined) await measureFirst(context, screensOf(ids).now)
  const slow = traffic.count()
  for (const [name, screen] of screens) await measureOpening(page, name, screen)
  tell('jobs that ended a second meanwhile', slow())
  traffic.set(rate)
  await pause(2000)
  for (const [name, screen] of screens) {
    const reached = traffic.count()
    await open(page, screen).catch(() => {})
    const stop = await watchMainThreads(browser, [{ name, page }])
    await pause(WATCH_MS)
    tellTasks(`${name}, ${reached()} jobs/s`, (await stop()).get(name))
  }
}

async function measureOpening(page, name, screen) {
  const times = []
  try {
    for (let n = 0; n < OPENINGS; n += 1) times.push(await open(page, screen))
    times.sort((a, b) => a - b)
    const usable = `${Math.round(times[1])} ms, at most ${Math.round(times.at(-1))}`
    const longest = await takeLongest(page)
    const task = longest === 0 ? 'under 50 ms' : `${longest} ms`
    tell(name, `${usable}; longest task ${task}`, `<= ${USABLE_MS} ms`, times[1] <= USABLE_MS)
  } catch (error) {
    tell(name, error.message.split('\n')[0], `<= ${USABLE_MS} ms`, false)
  }
}

/** Both clocks are held to the goal: a page that waits for the machine stands still for whoever looks at it. */
export function tellTasks(what, tasks) {
  const { wallMs, cpuMs, longer, longerCpu, worst } = sumUp(tasks, TASK_MS)
  const words = (ms) => (ms === 0 ? `under ${KEPT_MS} ms` : `${Math.round(ms)} ms`)
  const value = `${words(wallMs)}, ${longer} of ${TASK_MS} and more; by CPU time ${words(cpuMs)}, ${longerCpu}`
  tell(`${what}: longest task`, value, `< ${TASK_MS} ms`, wallMs < TASK_MS && cpuMs < TASK_MS)
  if (wallMs >= TASK_MS) tell('  the longest', taskWords(worst))
}

/** A visitor whose browser has nothing of the page yet. */
async function measureFirst(context, screen) {
  const fresh = await openFresh(context)
  const ms = await open(await fresh.newPage(), screen)
  await fresh.close()
  tell('now, nothing cached', `${Math.round(ms)} ms`, `<= ${USABLE_MS} ms`, ms <= USABLE_MS)
}
