create or replace view sluice.generation as select * from sluice.generations g where g.place = sluice.place_v1();
