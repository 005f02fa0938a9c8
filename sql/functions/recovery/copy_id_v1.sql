-- An unlogged table is emptied by exactly the events that can forget a commit: crash recovery, whether the whole server or a single
-- backend died, and the promotion of a standby. A clean restart keeps it. Nothing is claimed while the row is missing or closed.
--
-- A copy of the database, or a dump that was restored, has another id: there the row counts for nothing either.
create or replace function sluice.copy_id_v1() returns text
language sql stable
return (select d.oid || '/' || 'sluice.job_data'::regclass::oid from pg_database d where d.datname = current_database());
