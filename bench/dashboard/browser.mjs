// A real Chromium, signed in, and how a screen is opened in it.
import { chromium } from 'playwright-core'
import { findChromium, NO_CHROMIUM } from '../../scripts/ensure-chromium.mjs'

const FLAGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-dev-shm-usage',
  '--disable-background-networking',
  '--js-flags=--expose-gc',
]

export function launchBrowser() {
  const executablePath = findChromium()
  if (executablePath === undefined) throw new Error(NO_CHROMIUM)
  return chromium.launch({ executablePath, args: FLAGS })
}

/** A window in which somebody has signed in. */
export async function openWindow(browser, { url, key }) {
  const context = await browser.newContext({
    baseURL: url,
    locale: 'en-GB',
    viewport: { width: 1360, height: 850 },
  })
  context.setDefaultTimeout(30_000)
  await context.addInitScript(watchTasks)
  const page = await context.newPage()
  await page.goto('/')
  await page.getByLabel('API key').fill(key)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByText('Live', { exact: true }).waitFor()
  return { browser, context, page }
}

/** A window whose browser has nothing of the page yet; the session goes with it. */
export async function openFresh(context) {
  const fresh = await context
    .browser()
    .newContext({ baseURL: context.pages()[0].url(), storageState: await context.storageState() })
  await fresh.addInitScript(watchTasks)
  return fresh
}

/** Runs in the page. Browsers tell of tasks of 50 ms and more. */
function watchTasks() {
  globalThis.longest = 0
  new PerformanceObserver((list) => {
    for (const { duration } of list.getEntries())
      globalThis.longest = Math.max(globalThis.longest, Math.round(duration))
  }).observe({ type: 'longtask', buffered: true })
}

/** The longest task since it was last asked, by wall time; 0 when all were shorter than 50 ms. */
export function takeLongest(page) {
  return page.evaluate(() => {
    const ms = globalThis.longest
    globalThis.longest = 0
    return ms
  })
}

/** From the address to a page that shows what it is for, has nothing left to load, and has drawn it; by the page's clock. */
export async function open(page, [path, ...shows]) {
  await page.goto(path, { waitUntil: 'commit' })
  await page.waitForFunction(isThere, shows, { polling: 'raf' })
  return page.evaluate(
    () =>
      new Promise((drawn) =>
        requestAnimationFrame(() => requestAnimationFrame(() => drawn(performance.now()))),
      ),
  )
}

/** Runs in the page, with each frame. What begins with a tilde is a text, anything else a selector. */
function isThere(shows) {
  if (document.querySelector('.loading') !== null) return false
  const text = document.querySelector('main')?.textContent ?? ''
  return shows.every((each) =>
    each.startsWith('~')
      ? text.includes(each.slice(1))
      : [...document.querySelectorAll(each)].some((found) => found.checkVisibility()),
  )
}
