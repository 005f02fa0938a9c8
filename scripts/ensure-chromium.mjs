// Installs Chromium for the tests in a browser, if there is none and this is root on Debian or Ubuntu. Elsewhere it says what to
// install, and those tests are skipped. Part of `npm test`.
//
//   node scripts/ensure-chromium.mjs
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { pathToFileURL } from 'node:url'

const USUAL = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome']

/** @returns {string | undefined} The browser of `SLUICE_CHROMIUM`, or one in its usual place. */
export function findChromium() {
  return [process.env.SLUICE_CHROMIUM ?? '', ...USUAL].find((path) => path !== '' && existsSync(path))
}

/** What to do when there is none. */
export const NO_CHROMIUM =
  'there is no Chromium: install the package chromium, or name the program in SLUICE_CHROMIUM'

function run(...command) {
  const { status } = spawnSync(command[0], command.slice(1), {
    stdio: ['ignore', 'ignore', 'inherit'],
    env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' },
  })
  return status === 0
}

function ensure() {
  if (findChromium() !== undefined) return
  // Only Debian and its kin, and only who may: anybody else decides for themselves.
  if (process.getuid?.() === 0 && existsSync('/usr/bin/apt-get')) {
    console.log('installing chromium for tests in a browser ...')
    const install = ['apt-get', 'install', '-y', '-qq', '--no-install-recommends', 'chromium']
    // The list of packages of a fresh image is empty.
    if (run(...install) || (run('apt-get', 'update', '-qq') && run(...install))) return
    console.error('it could not be installed')
  }
  console.error(`${NO_CHROMIUM}. Tests in a browser are skipped.`)
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) ensure()
