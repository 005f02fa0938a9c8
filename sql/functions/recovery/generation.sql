-- The generation of this database: one row, or none after a crash and in a copy or a restored dump (sluice.copy_id_v1).
create or replace view sluice.generation as select * from sluice.generations g where g.copy_id = sluice.copy_id_v1();
