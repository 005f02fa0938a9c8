import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'

const SCRIPT = fileURLToPath(new URL('../../scripts/check-sql.mjs', import.meta.url))

/** What the check reports about these files; nothing: it is content. */
async function problemsOf(files: Readonly<Record<string, string>>): Promise<string[]> {
  const root = await mkdtemp(join(tmpdir(), 'sluice-sql-'))
  onTestFinished(() => rm(root, { recursive: true, force: true }))
  for (const [name, text] of Object.entries(files)) {
    await mkdir(dirname(join(root, name)), { recursive: true })
    await writeFile(join(root, name), text)
  }
  return new Promise((resolve) => {
    execFile(process.execPath, [SCRIPT, root], (error, _, stderr) =>
      resolve(error === null ? [] : stderr.trim().split('\n')),
    )
  })
}

const inFunction = (body: string) => `-- A function.
create or replace function sluice.f_v1() returns integer
language plpgsql as $$
declare
  v_n integer := 0;
begin
${body}
end $$;
`

test('accepts every form of block that PL/pgSQL has, and strings and comments in capitals', async () => {
  const found = await problemsOf({
    'sql/functions/area/f_v1.sql': inFunction(`  -- A comment.
  for v_n in select case when n > 3 then 'Three' else "N" end
               from t
              where b
  loop
    if v_n > 3 then
      continue;
    elsif v_n = 2 then
      begin
        update t set a = 1
         where b = 2;
      exception when others then
        raise;
      end;
    else
      v_n := 2;
    end if;
  end loop;
  return query
  select 1;`),
    'sql/functions/area/v.sql': '-- A view.\ncreate or replace view sluice.v as select 1;\n',
    'sql/migrations/0001_a.sql': '-- A table.\ncreate table a (b text);\n',
  })
  expect(found).toEqual([])
})

test('names statements at another depth than their block, and lines left of their statement', async () => {
  const found = await problemsOf({
    'sql/functions/area/f_v1.sql': inFunction(`  if v_n > 3 then
     return 1;
  end if;
    return 2
 + 3;`),
  })
  expect(found).toEqual([
    'sql/functions/area/f_v1.sql:8: indent the statement by 4 spaces, not by 5',
    'sql/functions/area/f_v1.sql:10: indent the statement by 2 spaces, not by 4',
    'sql/functions/area/f_v1.sql:11: indent the line by at least the 2 spaces of its statement',
  ])
})

test('names long lines, capitals, tabs, spaces at ends, and endings of files', async () => {
  const long = `-- ${'x'.repeat(148)}`
  const found = await problemsOf({
    'sql/migrations/0001_a.sql': `${long}\nCREATE table a (b text);\n\n\n\tdrop table b where c != 1; \n\n`,
  })
  expect(found).toEqual([
    'sql/migrations/0001_a.sql:7: end the file with one newline',
    'sql/migrations/0001_a.sql:1: 151 characters; a line has at most 150',
    'sql/migrations/0001_a.sql:2: write CREATE in lower case',
    'sql/migrations/0001_a.sql:4: write one empty line, not several',
    'sql/migrations/0001_a.sql:5: indent with spaces, not with tabs',
    'sql/migrations/0001_a.sql:5: remove the spaces at the end of the line',
    'sql/migrations/0001_a.sql:5: write <> instead of !=',
    'sql/migrations/0001_a.sql:7: write one empty line, not several',
  ])
})

test('names files without a header comment, and objects that are not what the file is named after', async () => {
  const found = await problemsOf({
    'sql/functions/area/f_v2.sql': inFunction('  return 1;'),
    'sql/functions/area/g_v1.sql': 'create function sluice.g_v1() returns integer language sql\nreturn 1;\n',
  })
  expect(found).toEqual([
    'sql/functions/area/f_v2.sql:2: the first statement must be: create or replace function (or view) sluice.f_v2',
    'sql/functions/area/g_v1.sql:1: begin the file with a comment that says what the object is for',
    'sql/functions/area/g_v1.sql:1: the first statement must be: create or replace function (or view) sluice.g_v1',
    'sql/functions/area/g_v1.sql:1: begin a line with the language',
  ])
})
