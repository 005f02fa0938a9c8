import { createRequire } from 'node:module'
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core'
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
    viewport: { width: 1360, height: 850 },
    ...options,
  })
  context.setDefaultTimeout(15_000)
  const page = await context.newPage()
  const complaints: string[] = []
  page.on('pageerror', (error) => complaints.push(`error: ${error.message}`))
  page.on('console', (message) => {
    const text = message.text()
    // That a server is away is told by the browser too: tests of that restart it.
    if (message.type() === 'error' && !/^Failed to load resource|net::ERR_/.test(text)) complaints.push(text)
  })
  return { page, complaints, close: () => context.close() }
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

/** Fails when axe finds something on the page that is serious for people who cannot see or point well. */
export async function expectAccessible(page: Page, where: string): Promise<void> {
  const loaded = await page.evaluate('typeof globalThis.axe')
  if (loaded === 'undefined') await page.evaluate(await axeSource())
  const { violations } = (await page.evaluate(
    'globalThis.axe.run(document, { resultTypes: ["violations"] })',
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
