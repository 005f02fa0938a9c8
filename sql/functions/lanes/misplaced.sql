-- Classes whose jobs belong to another lane, with that lane. Jobs that came to a lane that was deleted as unused go to default.
create or replace view sluice.misplaced as
  select c.id as class_id, m.lane
    from sluice.classes c
    join sluice.lanes l on l.name = c.lane
    left join sluice.tasks t on t.name = c.task
    left join sluice.lanes own on own.name = t.lane
   cross join lateral (select case
       when not c.chosen and own.deleted_at is null and own.name is not null then own.name
       when not c.chosen and own.deleted_at is not null then coalesce(own.deleted_to, 'default')
       when l.deleted_at is not null then coalesce(l.deleted_to, 'default') end as lane) m
   where m.lane <> c.lane;
