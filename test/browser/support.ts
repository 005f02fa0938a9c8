import { createRequire } from 'node:module'
import { type Browser, type BrowserContextOptions, chromium, type Page, type Request } from 'playwright-core'
import { afterAll, expect } from 'vitest'
import { findChromium, NO_CHROMIUM } from '../../scripts/ensure-chromium.mjs'

/** Why no test can run in a browser here; `undefined` when they can. Give it to `describe.skipIf`, and into its title. */
export const noBrowser: string | undefined = findChromium() === undefined ? NO_CHROMIUM : undefined

const FLAGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  // Containers have 64 MB of shared memory, and Chromium wants more.
  '--disable-dev-shm-usage',
]

const AXE = createRequire(import.meta.url).resolve('axe-core/axe.min.js')

let running: Promise<Browser> | undefined

/** One browser for all files that run in this process; it ends with the process that started it. */
export function openBrowser(): Promise<Browser> {
  running ??= chromium.launch({ executablePath: findChromium()!, headless: true, args: FLAGS })
  return running
}

/** A window of a person of their own: cookies, sizes and what went wrong in it. */
export interface Visit {
  readonly page: Page
  /** Everything the browser complained about: scripts that failed, and what the policy of the page has refused. */
  readonly complaints: readonly string[]
  close(): Promise<void>
}

export async function visit(url: string, options: BrowserContextOptions = {}): Promise<Visit> {
  const browser = await openBrowser()
  const context = await browser.newContext({
    baseURL: url,
    locale: 'en-GB',
    timezoneId: 'UTC',
    reducedMotion: 'reduce',
    viewport: WIDE,
    ...options,
  })
  context.setDefaultTimeout(60_000)
  const page = await context.newPage()
  countRequests(page)
  const complaints: string[] = []
  page.on('pageerror', (error) => complaints.push(`error: ${error.message}`))
  page.on('console', (message) => {
    const text = message.text()
    // That a server is away is told by the browser too: tests of that restart it.
    if (message.type() === 'error' && !/^Failed to load resource|net::ERR_/.test(text)) complaints.push(text)
  })
  return { page, complaints, close: () => context.close() }
}

const underWay = new WeakMap<Page, ReadonlySet<Request>>()

/** Streams aside, which last as long as the page does. */
function countRequests(page: Page): void {
  const open = new Set<Request>()
  underWay.set(page, open)
  page.on('request', (request) => {
    if (request.headers().accept !== 'text/event-stream') open.add(request)
  })
  page.on('requestfinished', (request) => open.delete(request))
  page.on('requestfailed', (request) => open.delete(request))
}

/** What has not come yet: a place that is held for it, an answer that is awaited, a stream that is not open. */
const TO_COME = '[data-loading], .link-state[data-state="connecting"]'

/**
 * Waits until all of the screen is there. A text that one looks for may come before the rest, or stand in what is always there:
 * a check of the whole page would then look at half of it, and find nothing wrong.
 */
export async function complete(page: Page): Promise<void> {
  // Under a dialog it is hidden from those who do not see it.
  const main = page.getByRole('main', { includeHidden: true })
  await main.waitFor()
  await expect
    .poll(
      async () => {
        const awaited = [...(underWay.get(page) ?? [])].map((request) => request.url())
        // Two frames: what has come is drawn, and what that asks for in turn is on its way.
        await page.evaluate(
          'new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))',
        )
        const held = await page
          .locator(TO_COME)
          .evaluateAll((all) => all.map(({ outerHTML }) => outerHTML.slice(0, 80)))
        return [...awaited, ...held, ...[...(underWay.get(page) ?? [])].map((request) => request.url())]
      },
      { message: `what has not come yet at ${page.url()}`, timeout: 60_000 },
    )
    .toEqual([])
  expect(await main.locator(':scope > *').count(), `what is shown at ${page.url()}`).toBeGreaterThan(0)
}

/** Signs in as the page offers it, and waits for the first screen. */
export async function signIn(page: Page, key: string, path = '/'): Promise<void> {
  await page.goto(path)
  await page.getByLabel('API key').fill(key)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByRole('navigation', { name: 'Screens' }).first().waitFor()
}

interface AxeResult {
  readonly violations: readonly {
    readonly id: string
    readonly impact: string | null
    readonly help: string
    readonly nodes: readonly { readonly html: string; readonly failureSummary?: string }[]
  }[]
}

/**
 * Fails when axe finds something on the page that is serious for people who cannot see or point well, or that cannot be read
 * in the dark theme.
 */
export async function expectAccessible(page: Page, where: string): Promise<void> {
  await complete(page)
  await loadAxe(page)
  await expectNothingGrave(page, where)
  await page.emulateMedia({ colorScheme: 'dark' })
  await expectNothingGrave(page, `${where} in the dark`, ['color-contrast'])
  await page.emulateMedia({ colorScheme: 'light' })
}

async function loadAxe(page: Page): Promise<void> {
  const loaded = await page.evaluate('typeof globalThis.axe')
  if (loaded === 'undefined') await page.evaluate(await axeSource())
}

async function expectNothingGrave(page: Page, where: string, only?: readonly string[]): Promise<void> {
  const options = { resultTypes: ['violations'], ...(only !== undefined && { runOnly: only }) }
  const { violations } = (await page.evaluate(
    `globalThis.axe.run(document, ${JSON.stringify(options)})`,
  )) as AxeResult
  const grave = violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .map(
      ({ id, help, nodes }) =>
        `${where}: ${id}: ${help}: ${nodes
          .map(({ html }) => html)
          .slice(0, 3)
          .join(' | ')}`,
    )
  expect(grave, `what axe finds on ${where}`).toEqual([])
}

const WIDE = { width: 1360, height: 850 }
const PHONE = { width: 390, height: 844 }

/** Fails when the page is wider than a phone: nobody finds what is beside the screen; or cannot be read there in the dark. */
export async function expectFitsPhone(page: Page, where: string): Promise<void> {
  await page.setViewportSize(PHONE)
  await complete(page)
  const wide = await page.evaluate('document.documentElement.scrollWidth')
  // What is in a box that scrolls by itself may be wide: this is for the eye of who reads the failure.
  const beside = await page.evaluate(`[...document.querySelectorAll('body *')]
    .filter((element) => element.getBoundingClientRect().right > innerWidth)
    .map(({ tagName, className, textContent }) => tagName + '.' + className + ' ' + textContent.slice(0, 40))
    .slice(0, 5).join('; ')`)
  expect(wide, `width of ${where} on a phone, beside it: ${beside}`).toBeLessThanOrEqual(PHONE.width)
  await loadAxe(page)
  await page.emulateMedia({ colorScheme: 'dark' })
  await expectNothingGrave(page, `${where} on a phone in the dark`, ['color-contrast'])
  await page.emulateMedia({ colorScheme: 'light' })
  await page.setViewportSize(WIDE)
}

/** How much of the page has moved by itself until it was complete. Above 0.1 people notice, as browsers rate it. */
export async function jumpsOf(page: Page): Promise<number> {
  await complete(page)
  // What was kept so far is handed over with the next frames; whatever is still on its way by then is taken out by hand.
  return (await page.evaluate(`new Promise((resolve) => {
    let sum = 0
    const add = (entries) => {
      for (const { value } of entries) sum += value
    }
    const observer = new PerformanceObserver((list) => add(list.getEntries()))
    observer.observe({ type: 'layout-shift', buffered: true })
    requestAnimationFrame(() => requestAnimationFrame(() => {
      add(observer.takeRecords())
      observer.disconnect()
      resolve(sum)
    }))
  })`)) as number
}

/** The answer to a question of the page: the reason, and its button. */
export async function confirm(page: Page, action: string, reason = 'test'): Promise<void> {
  const dialog = page.getByRole('alertdialog')
  await dialog.getByLabel('Reason').fill(reason)
  await dialog.getByRole('button', { name: action }).click()
  await dialog.waitFor({ state: 'detached' })
}

/** Links to screens, as whoever is signed in has them. */
export function offeredScreens(page: Page): Promise<string[]> {
  return page.getByRole('navigation', { name: 'Screens' }).first().getByRole('link').allTextContents()
}

let source: string | undefined

async function axeSource(): Promise<string> {
  if (source === undefined) {
    const { readFile } = await import('node:fs/promises')
    source = await readFile(AXE, 'utf8')
  }
  return source
}

/** Closes the visits of a file when it is done. */
export function useVisits(): (url: string, options?: BrowserContextOptions) => Promise<Visit> {
  const open: Visit[] = []
  afterAll(async () => {
    await Promise.all(open.map((each) => each.close()))
  })
  return async (url, options) => {
    const made = await visit(url, options)
    open.push(made)
    return made
  }
}
