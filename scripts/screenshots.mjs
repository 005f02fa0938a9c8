// Takes a screenshot of every screen, light and dark, wide and on a phone, and writes them to docs/images.
//
//   npm run screenshots                                     every screen
//   npm run build && node scripts/screenshots.mjs NAME...   only these screens
import { mkdirSync, readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { chromium } from 'playwright-core'
import { shrinkPng } from './demo/shrink-png.mjs'
import { openDemo } from './demo/system.mjs'
import { findChromium, NO_CHROMIUM } from './ensure-chromium.mjs'

const OUT = process.env.SLUICE_IMAGES ?? fileURLToPath(new URL('../docs/images', import.meta.url))
const SIZES = { wide: { width: 1280, height: 800 }, phone: { width: 390, height: 844 } }

/** Opens the search and types. */
const searchFor = (text) => async (page) => {
  await page.keyboard.press('/')
  await page.getByRole('combobox', { name: 'Search' }).fill(text)
  await page.getByText('Enter opens, Esc closes').waitFor()
}

/** By name: its address, a text that is there once it is complete, and what is done there. */
const screensOf = ({ ids }) => ({
  now: ['/', 'interactive'],
  lanes: ['/lanes', 'interactive'],
  jobs: ['/jobs', '24 of 200 in items'],
  queue: ['/jobs?tab=queued&lane=batch&with=steps&order=line', '12 of 12 slots busy'],
  search: ['/jobs', '24 of 200 in items', searchFor('batch')],
  job: [`/jobs/${ids.running}`, 'videos.transcode'],
  why: [`/jobs/${ids.waiting}`, 'videos.transcode'],
  workflow: [`/workflows/${ids.workflow}`, 'reindex'],
  trace: [`/trace/${ids.trace}`, 'payments.capture'],
  errors: ['/errors', 'ECONNRESET'],
  workers: ['/workers', 'start 2'],
  devices: ['/gpu', 'llama-70b'],
  approvals: [`/approvals?job=${ids.approval}`, 'production'],
  schedules: ['/schedules?name=nightly-report', 'At 03:00'],
  recovery: ['/recovery', 'Late write rejected'],
  access: ['/access', 'grafana'],
  audit: ['/audit?actor=olga', 'lane.change'],
})

async function takeAll(demo, browser, wanted) {
  const screens = Object.entries(screensOf(demo)).filter(
    ([name]) => wanted.length === 0 || wanted.includes(name),
  )
  for (const theme of ['light', 'dark'])
    for (const [size, viewport] of Object.entries(SIZES)) {
      const context = await browser.newContext({
        baseURL: demo.url,
        viewport,
        colorScheme: theme,
        reducedMotion: 'reduce',
        locale: 'en-GB',
        timezoneId: 'Europe/Berlin',
      })
      const page = await context.newPage()
      if (wanted.length === 0) {
        await page.goto('/')
        await page.getByLabel('API key').waitFor()
        await save(page, `sign-in-${size}-${theme}`)
      }
      await page.goto('/')
      await page.getByLabel('API key').fill(demo.keys.ada)
      await page.getByRole('button', { name: 'Sign in' }).click()
      await page.getByText('Live', { exact: true }).waitFor()
      for (const [name, [path, shows, act]] of screens) {
        try {
          await page.goto(path)
          await page.getByText(shows).filter({ visible: true }).first().waitFor({ timeout: 10_000 })
          await page.locator('[data-loading]').first().waitFor({ state: 'detached', timeout: 5000 })
          // Charts are drawn once their library has come.
          await page.waitForLoadState('networkidle', { timeout: 1500 }).catch(() => {})
          await act?.(page)
        } catch (error) {
          console.error(`${name} ${size} ${theme}: ${error.message.split('\n')[0]}`)
        }
        await save(page, `${name}-${size}-${theme}`)
      }
      await context.close()
    }
}

async function save(page, name) {
  const path = join(OUT, `${name}.png`)
  await page.screenshot({ path, animations: 'disabled' })
  shrinkPng(path)
}

const browserPath = findChromium()
if (browserPath === undefined) throw new Error(NO_CHROMIUM)
mkdirSync(OUT, { recursive: true })
const demo = await openDemo()
const browser = await chromium.launch({
  executablePath: browserPath,
  args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--disable-background-networking'],
})
try {
  await takeAll(demo, browser, process.argv.slice(2))
} finally {
  await browser.close()
  await demo.close()
}
const bytes = readdirSync(OUT).reduce((sum, name) => sum + statSync(join(OUT, name)).size, 0)
console.log(`${readdirSync(OUT).length} pictures in ${OUT}, ${(bytes / 1e6).toFixed(1)} MB`)
