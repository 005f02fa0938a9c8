import { Outlet } from '@tanstack/react-router'
import { Dialog as Drawer, DropdownMenu } from 'radix-ui'
import { useState } from 'react'
import { useNowStream } from '../live/now.ts'
import { AskHost } from '../parts/ask.tsx'
import { Button } from '../parts/controls.tsx'
import { To } from '../parts/link.tsx'
import { TellHost, useTell } from '../parts/toast.tsx'
import { signOut, useSession } from '../session.tsx'
import { LinkState } from './link-state.tsx'
import { Navigation } from './navigation.tsx'
import './shell.css'
import { type Theme, useTheme } from './theme.ts'

/** What stands around every screen. */
export function Shell() {
  const { may } = useSession()
  useNowStream(may('workers:view'))
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
            <LinkState />
            <Account />
          </header>
          <aside className="shell-side">
            <Navigation />
          </aside>
          <main id="main" className="shell-main" tabIndex={-1}>
            <Outlet />
          </main>
        </div>
      </AskHost>
    </TellHost>
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

function Account() {
  const { session } = useSession()
  const [theme, setTheme] = useTheme()
  const tell = useTell()
  const leave = () => {
    signOut().catch((error) => tell(`Could not sign out: ${error}`))
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
          <DropdownMenu.Label className="menu-label">Colours</DropdownMenu.Label>
          <DropdownMenu.RadioGroup value={theme} onValueChange={(value) => setTheme(value as Theme)}>
            {(['system', 'light', 'dark'] as const).map((each) => (
              <DropdownMenu.RadioItem key={each} value={each} className="menu-item">
                <span className="menu-mark">
                  <DropdownMenu.ItemIndicator>✓</DropdownMenu.ItemIndicator>
                </span>
                {each === 'system' ? 'As the machine' : each === 'light' ? 'Light' : 'Dark'}
              </DropdownMenu.RadioItem>
            ))}
          </DropdownMenu.RadioGroup>
          <DropdownMenu.Separator className="menu-line" />
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
