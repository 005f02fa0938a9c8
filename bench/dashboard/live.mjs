// Pages that stay open side by side while jobs change: whether their memory stays as it is, and how long they are busy at a time.
import { setTimeout as pause } from 'node:timers/promises'
import { open } from './browser.mjs'
import { heapByKind, heapOf, kindWords, openHeap } from './heap.mjs'
import { watchMainThreads } from './main-thread.mjs'
import { median, tell } from './report.mjs'
import { screensOf, tellTasks } from './screens.mjs'

/** Heap at the end against that after the first tenth: what a page needs differs by so much from one second to the next. */
const GROWTH = 1.1
const USUAL = ['now', 'jobs', 'fan-out']
/** A trace of three pages over that time has some 20 MB. */
const SLICE_MS = 10_000
const READINGS = 20

/** @param wanted Names of screens; without it, those that change most. */
export async function measureLive({ traffic, ids }, { browser, context, page: first }, options) {
  const { rate, minutes, wanted = USUAL } = options
  traffic.set(rate)
  const screens = screensOf(ids)
  const pages = []
  for (const name of wanted) {
    const page = pages.length === 0 ? first : await context.newPage()
    await open(page, screens[name])
    pages.push({ name, page, cdp: await openHeap(context, page), readings: [], kinds: [], tasks: [] })
  }
  const reached = traffic.count()
  const begun = performance.now()
  const end = begun + minutes * 60_000
  // Before the first reading everything has been drawn many times.
  await pause((minutes * 60_000) / 10)
  await readHeaps(pages)
  for (const { cdp, kinds } of pages) kinds.push(await heapByKind(cdp))
  while (performance.now() < end || pages[0].readings.length < 2) {
    const next = begun + ((pages[0].readings.length + 2) * minutes * 60_000) / READINGS
    while (performance.now() < Math.min(next, end)) await watchSlice(browser, pages, next)
    await readHeaps(pages)
  }
  for (const { cdp, kinds } of pages) kinds.push(await heapByKind(cdp))
  for (const each of pages) tellPage(each, minutes)
  tell('jobs that ended a second meanwhile', reached())
}

async function watchSlice(browser, pages, until) {
  const stop = await watchMainThreads(browser, pages)
  await pause(Math.max(1000, Math.min(SLICE_MS, until - performance.now())))
  const found = await stop()
  for (const each of pages) each.tasks.push(...found.get(each.name))
}

/** Between two slices: a forced collection is a long task that nobody has without it. */
async function readHeaps(pages) {
  for (const each of pages) each.readings.push(await heapOf(each.cdp))
}

function tellPage({ name, readings, kinds, tasks }, minutes) {
  const of = (field, from, to) => median(readings.slice(from, to).map((each) => each[field]))
  const [early, late] = [of('heap', 0, 3), of('heap', -3)]
  const [first, last] = [readings[0], readings.at(-1)]
  const value = `${early.toFixed(2)} -> ${late.toFixed(2)} MB, nodes ${of('nodes', 0, 3)} -> ${of('nodes', -3)}`
  tell(`${name}, ${minutes} min: heap, medians of 3`, value, `<= ${GROWTH}x`, late <= early * GROWTH)
  tell('  the first and the last reading', `${first.heap.toFixed(2)} -> ${last.heap.toFixed(2)} MB`)
  tell('  by kind, with what is not counted above', kindWords(...kinds))
  tellTasks(`${name}, ${minutes} min`, tasks)
}
