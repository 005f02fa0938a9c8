import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { TLSSocket } from 'node:tls'
import { promisify } from 'node:util'
import { addressOf } from './tcp-proxy.ts'

const run = promisify(execFile)
const openssl = (args: readonly string[]) => run('openssl', args)
/** The first message of a PostgreSQL client that wants TLS: its length, and a number that stands for "SSL request". */
const SSL_REQUEST = Buffer.from([0, 0, 0, 8, 4, 210, 22, 47])

export interface TlsProxy {
  /** The address of `targetUrl` through the proxy, by the name in the certificate, with these parameters. */
  through(targetUrl: string, parameters?: Readonly<Record<string, string>>): string
  /** The certificate of the authority that signed the proxy's certificate. */
  readonly authority: string
  /** How many connections were encrypted. */
  readonly encrypted: number
  /** How many connections did not ask for TLS. They were closed. */
  readonly plain: number
  close(): Promise<void>
}

/** A proxy in front of a PostgreSQL server that speaks TLS only, as `hostssl` in `pg_hba.conf` does. */
export async function startTlsProxy(): Promise<TlsProxy> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-tls-'))
  const { key, cert, authority } = await makeCertificate(folder)
  const sockets = new Set<Socket>()
  let target: ReturnType<typeof addressOf> | undefined
  let encrypted = 0
  let plain = 0
  const keep = (socket: Socket): Socket => {
    sockets.add(socket)
    return socket.on('error', () => socket.destroy()).on('close', () => sockets.delete(socket))
  }
  const server = createServer({ noDelay: true }, (client) => {
    keep(client).once('data', (first: Buffer) => {
      if (!first.equals(SSL_REQUEST)) {
        plain += 1
        client.destroy()
        return
      }
      client.write('S')
      const secure = keep(new TLSSocket(client, { isServer: true, key, cert }))
      secure.once('secure', () => {
        encrypted += 1
        const upstream = keep(connect(target!))
        secure.pipe(upstream).pipe(secure)
        secure.on('close', () => upstream.destroy())
        upstream.on('close', () => secure.destroy())
      })
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return {
    authority,
    get encrypted() {
      return encrypted
    },
    get plain() {
      return plain
    },
    through(targetUrl, parameters = {}) {
      target = addressOf(targetUrl)
      const address = new URL(targetUrl)
      const all = { host: 'localhost', port: String(port), ...parameters }
      for (const [name, value] of Object.entries(all)) address.searchParams.set(name, value)
      return address.href
    },
    async close() {
      const closed = once(server, 'close')
      server.close()
      for (const socket of sockets) socket.destroy()
      await closed
      await rm(folder, { recursive: true })
    },
  }
}

async function makeCertificate(folder: string): Promise<{ key: Buffer; cert: Buffer; authority: string }> {
  const file = (name: string): string => join(folder, name)
  const fresh = ['-newkey', 'rsa:2048', '-nodes']
  const authority = file('ca.pem')
  await openssl(['req', '-x509', ...fresh, '-subj', '/CN=CA', '-keyout', file('ca.key'), '-out', authority])
  await openssl(['req', ...fresh, '-subj', '/CN=db', '-keyout', file('db.key'), '-out', file('db.csr')])
  await writeFile(file('names'), 'subjectAltName=DNS:localhost')
  const signing = ['-CA', authority, '-CAkey', file('ca.key'), '-CAcreateserial', '-extfile', file('names')]
  await openssl(['x509', '-req', '-in', file('db.csr'), ...signing, '-out', file('db.pem')])
  return { key: await readFile(file('db.key')), cert: await readFile(file('db.pem')), authority }
}
