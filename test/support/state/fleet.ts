import pg from 'pg'

/** Makes as if a pool had asked for workers that have all come. Gives the token by which one of them is known. */
export async function plantRequest(databaseUrl: string, pool: string): Promise<string> {
  const client = new pg.Client(databaseUrl)
  await client.connect()
  try {
    const { rows } = await client.query<{ token: string }>(
      `insert into sluice.fleet_decisions (pool, action, count, reason, decided_by, token, arrive_by, taken_until, ended_at, outcome)
       values ($1, 'start', 1, 'a test', 'test', gen_random_uuid(), clock_timestamp(), clock_timestamp(), clock_timestamp(), 'arrived')
       returning token`,
      [pool],
    )
    return `${rows[0]!.token}.1`
  } finally {
    await client.end()
  }
}
