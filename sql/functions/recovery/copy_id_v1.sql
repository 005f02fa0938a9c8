-- Identifies this copy of the database. A copy of the files, or a dump that was restored, has another id.
--
-- sluice.generations is an unlogged table. It is emptied by exactly the events that can lose a commit: crash recovery, whether the whole server or a
-- single backend died, and the promotion of a standby. A clean restart keeps it. Nothing is claimed while its row is missing or closed, and a row
-- with the id of another copy counts as missing.
create or replace function sluice.copy_id_v1() returns text
language sql stable
return (select d.oid || '/' || 'sluice.job_data'::regclass::oid from pg_database d where d.datname = current_database());
