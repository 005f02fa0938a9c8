import { Outlet } from '@tanstack/react-router'
import { Dialog as Drawer, DropdownMenu } from 'radix-ui'
import { lazy, Suspense, useEffect, useState } from 'react'
import { useNowStream } from '../live/now.ts'
import { AskHost } from '../parts/ask.tsx'
import { Button } from '../parts/controls.tsx'
import { To } from '../parts/link.tsx'
import { TellHost, useTell } from '../parts/toast.tsx'
import { signOut, useSession } from '../session.tsx'
import { LinkState } from './link-state.tsx'
import { Navigation } from './navigation.tsx'
import './palette.css'
import './shell.css'
import { type Overlay, useShortcuts } from './shortcuts.ts'
import { type Theme, useTheme } from './theme.ts'

/** After the screen, which comes first. */
const PRELOAD_MS = 500

const loadPalette = () => import('./palette.tsx').then(({ Palette }) => ({ default: Palette }))
const Palette = lazy(loadPalette)
const Help = lazy(() => import('./help.tsx').then(({ Help }) => ({ default: Help })))

/** What stands around every screen. */
export function Shell() {
  const { may } = useSession()
  useNowStream(may('workers:view'))
  const [overlay, setOverlay] = useState<Overlay>()
  useShortcuts(setOverlay)
  const close = () => setOverlay(undefined)
  // What is typed right after the key must not be lost while the search loads.
  useEffect(() => {
    const timer = setTimeout(() => void loadPalette().catch(() => {}), PRELOAD_MS)
    return () => clearTimeout(timer)
  }, [])
  return (
    <TellHost>
      <AskHost>
        <div className="shell">
          <a className="skip" href="#main">
            Skip to content
          </a>
          <header className="shell-head">
            <PhoneMenu />
            <To path="/" className="brand">
              <Mark />
              Sluice
            </To>
            <span className="shell-room" />
            <SearchButton onClick={() => setOverlay('palette')} />
            <LinkState />
            <Account onHelp={() => setOverlay('help')} />
          </header>
          <aside className="shell-side">
            <Navigation />
          </aside>
          <main id="main" className="shell-main" tabIndex={-1}>
            <Outlet />
          </main>
          <Suspense fallback={null}>
            {overlay === 'palette' && <Palette onClose={close} onHelp={() => setOverlay('help')} />}
            {overlay === 'help' && <Help onClose={close} />}
          </Suspense>
        </div>
      </AskHost>
    </TellHost>
  )
}

function SearchButton({ onClick }: { onClick: () => void }) {
  return (
    <Button
      className="search-button"
      onClick={onClick}
      aria-label="Search"
      aria-keyshortcuts="/ Control+K Meta+K"
    >
      <svg viewBox="0 0 16 16" aria-hidden="true">
        <path d="M11 7a4 4 0 1 1-8 0 4 4 0 0 1 8 0ZM10 10l4 4" />
      </svg>
      <span>Search</span>
      <i className="key" aria-hidden="true">
        /
      </i>
    </Button>
  )
}

function Mark() {
  return (
    <svg className="mark" viewBox="0 0 32 32" aria-hidden="true">
      <path d="M5 8h22M5 16h14M5 24h6" />
    </svg>
  )
}

/** On a narrow screen the navigation is behind a button. */
function PhoneMenu() {
  const [open, setOpen] = useState(false)
  return (
    <Drawer.Root open={open} onOpenChange={setOpen}>
      <Drawer.Trigger asChild>
        <Button className="phone-menu" kind="quiet" aria-label="Screens">
          <svg viewBox="0 0 16 16" aria-hidden="true">
            <path d="M2 4h12M2 8h12M2 12h12" />
          </svg>
        </Button>
      </Drawer.Trigger>
      <Drawer.Portal>
        <Drawer.Overlay className="dialog-veil" />
        <Drawer.Content className="drawer" aria-describedby={undefined}>
          <Drawer.Title className="hidden-visually">Screens</Drawer.Title>
          <Navigation onGo={() => setOpen(false)} />
        </Drawer.Content>
      </Drawer.Portal>
    </Drawer.Root>
  )
}

function Account({ onHelp }: { onHelp: () => void }) {
  const { session } = useSession()
  const [theme, setTheme] = useTheme()
  const tell = useTell()
  const leave = () => {
    signOut().catch((error) => tell(`Sign-out failed: ${error}`))
  }
  return (
    <DropdownMenu.Root modal={false}>
      <DropdownMenu.Trigger asChild>
        <Button kind="quiet" className="account">
          <span className="account-name">{session.name}</span>
          <span className="soft account-role">{session.role}</span>
          <span aria-hidden="true">▾</span>
        </Button>
      </DropdownMenu.Trigger>
      <DropdownMenu.Portal>
        <DropdownMenu.Content className="menu" align="end" sideOffset={4}>
          <DropdownMenu.Label className="menu-label">Theme</DropdownMenu.Label>
          <DropdownMenu.RadioGroup value={theme} onValueChange={(value) => setTheme(value as Theme)}>
            {(['system', 'light', 'dark'] as const).map((each) => (
              <DropdownMenu.RadioItem key={each} value={each} className="menu-item">
                <span className="menu-mark">
                  <DropdownMenu.ItemIndicator>✓</DropdownMenu.ItemIndicator>
                </span>
                {each === 'system' ? 'System' : each === 'light' ? 'Light' : 'Dark'}
              </DropdownMenu.RadioItem>
            ))}
          </DropdownMenu.RadioGroup>
          <DropdownMenu.Separator className="menu-line" />
          <DropdownMenu.Item className="menu-item" onSelect={onHelp}>
            <span className="menu-mark">?</span>
            Help and shortcuts
          </DropdownMenu.Item>
          <DropdownMenu.Item className="menu-item" asChild>
            <a href="/docs">
              <span className="menu-mark" />
              HTTP reference
            </a>
          </DropdownMenu.Item>
          <DropdownMenu.Item className="menu-item" onSelect={leave}>
            <span className="menu-mark" />
            Sign out
          </DropdownMenu.Item>
        </DropdownMenu.Content>
      </DropdownMenu.Portal>
    </DropdownMenu.Root>
  )
}
