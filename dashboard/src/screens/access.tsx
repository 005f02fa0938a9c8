import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import type { Key } from '../../../src/client/index.ts'
import { because, client, queries } from '../connection.ts'
import { useAsk } from '../parts/ask.tsx'
import { Button, Choice } from '../parts/controls.tsx'
import { To, useAddress } from '../parts/link.tsx'
import { Empty, Loading } from '../parts/notes.tsx'
import { PageHead, Panel } from '../parts/panel.tsx'
import { Problem } from '../parts/problem.tsx'
import { type Column, Table } from '../parts/table.tsx'
import { Ago, Moment } from '../parts/time.tsx'
import { useSession } from '../session.tsx'
import './access/access.css'
import { ChangeScope } from './access/change-scope.tsx'
import { NewKey } from './access/new-key.tsx'
import { Roles } from './access/roles.tsx'
import { scopeInWords } from './access/scope-fields.tsx'

const KEYS = ['keys']

/** Keys and roles: who may come in, and what they may do. */
export function Screen() {
  const { search, change } = useAddress()
  const keys = useQuery({ queryKey: KEYS, queryFn: () => client.access.listKeys() })
  const roles = useQuery({ queryKey: ['roles'], queryFn: () => client.access.listRoles() })
  const [changing, setChanging] = useState<Key>()
  const columns = useColumns(setChanging)
  const all = search.keys === 'all'
  const rows = (keys.data ?? []).filter(({ state }) => all || state === 'active')
  return (
    <>
      <PageHead
        title="Access"
        about={
          <span className="in-text">
            API keys and their permissions. The <To path="/audit">audit log</To> records what each key did.
          </span>
        }
      >
        <Button kind="primary" onClick={() => change({ do: 'create' })}>
          Create key…
        </Button>
      </PageHead>
      <Problem error={keys.error ?? roles.error} onRetry={() => void queries.refetchQueries()} />
      {search.do === 'create' && (
        <NewKey roles={roles.data ?? []} onClose={() => change({ do: undefined })} />
      )}
      {changing !== undefined && <ChangeScope of={changing} onClose={() => setChanging(undefined)} />}
      <Panel
        title="Keys"
        aside={
          <Choice
            label="Keys shown"
            value={all ? 'all' : 'active'}
            options={[
              { value: 'active', label: 'Active' },
              { value: 'all', label: 'All' },
            ]}
            onChange={(value) => change({ keys: value === 'all' ? value : undefined })}
          />
        }
        flush
      >
        {keys.isPending ? (
          <Loading lines={6} />
        ) : (
          <Table
            label="Keys"
            columns={columns}
            rows={rows}
            rowKey={({ id }) => id}
            empty={<Empty title="No active keys" command="sluice keys create NAME --role operator" />}
          />
        )}
      </Panel>
      <Panel title="Roles" flush>
        {roles.data === undefined ? <Loading lines={6} /> : <Roles roles={roles.data} />}
      </Panel>
    </>
  )
}

function useColumns(changeScope: (key: Key) => void): readonly Column<Key>[] {
  const ask = useAsk()
  const { session } = useSession()
  const revoke = ({ id, name, role }: Key) =>
    ask({
      title: `Revoke key ${id} of ${name}`,
      effect: (
        <>
          <p>
            Every server rejects the key from now on, and its sessions and workers end. This cannot be undone.
          </p>
          {id === session.keyId && <p>You are signed in with this key and will be signed out.</p>}
          <p>Role: {role}.</p>
        </>
      ),
      action: 'Revoke key',
      danger: true,
      run: async (reason) => {
        await because(reason).access.revokeKey(id)
        await queries.invalidateQueries()
        return `Key ${id} of ${name} is revoked`
      },
    })
  return [
    {
      id: 'name',
      head: 'Name',
      wrap: true,
      cell: ({ id, name }) => (
        <>
          {name} <span className="soft">key {id}</span>
          {id === session.keyId && <span className="soft">, this session</span>}
        </>
      ),
    },
    {
      id: 'role',
      head: 'Role',
      width: '20%',
      phone: '150px',
      wrap: true,
      cell: (key) => (
        <>
          {key.role}
          {key.runs !== null && <div className="soft">{scopeInWords(key.runs)}</div>}
          {key.runs !== null && key.state === 'active' && (
            <Button
              small
              aria-label={`Edit what key ${key.id} of ${key.name} runs`}
              onClick={() => changeScope(key)}
            >
              Edit…
            </Button>
          )}
        </>
      ),
    },
    {
      id: 'state',
      head: 'State',
      width: '110px',
      has: ({ state }) => state !== 'active',
      phone: 'below',
      cell: ({ state }) =>
        state === 'active' ? (
          'Active'
        ) : (
          <span className="soft">{state === 'expired' ? 'Expired' : 'Revoked'}</span>
        ),
    },
    {
      id: 'used',
      head: 'Last used',
      width: '120px',
      phone: 'below',
      cell: ({ lastUsedAt }) => <Ago at={lastUsedAt} />,
    },
    { id: 'created', head: 'Created', width: '18%', phone: 'below', cell: (key) => <Created of={key} /> },
    {
      id: 'expires',
      head: 'Expires',
      width: '130px',
      phone: 'below',
      cell: ({ expiresAt, revokedAt }) =>
        revokedAt !== null ? (
          <Moment at={revokedAt} />
        ) : expiresAt === null ? (
          'never'
        ) : (
          <Ago at={expiresAt} />
        ),
    },
    {
      id: 'actions',
      head: <span className="hidden-visually">Actions</span>,
      width: '100px',
      phone: '92px',
      align: 'right',
      cell: (key) =>
        key.state === 'active' && (
          <Button
            small
            kind="danger"
            aria-label={`Revoke key ${key.id} of ${key.name}`}
            onClick={() => revoke(key)}
          >
            Revoke
          </Button>
        ),
    },
  ]
}

function Created({ of: { createdAt, createdBy } }: { of: Key }) {
  return (
    <>
      <Moment at={createdAt} /> <span className="soft">by {createdBy}</span>
    </>
  )
}
