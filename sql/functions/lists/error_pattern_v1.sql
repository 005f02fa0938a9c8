-- What an error has in common with others of its kind: ids, numbers, paths and quoted texts are left out. The host of an address stays, because
-- what begins after a slash is no path.
create or replace function sluice.error_pattern_v1(p_error text) returns text
language sql immutable parallel safe
return regexp_replace(regexp_replace(regexp_replace(left(p_error, 400),
  '"[^"]*"|''[^'']*''|`[^`]*`', '...', 'g'),
  '[0-9a-fA-F]{8}-[0-9a-fA-F-]{27}|\m0x[0-9a-fA-F]+\M|(?<!/)(/[[:alnum:]_.@-]+){2,}', '...', 'g'),
  '\m[0-9a-fA-F]*[0-9][0-9a-fA-F]*\M|[0-9]+', 'N', 'g');
