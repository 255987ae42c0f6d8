-- What only PostgreSQL needs, in the format of ../queries.sql.

-- name: known_origins
select origin from log where n = :n and origin is not null and md5(origin) = any(:digests)

-- name: touched
select distinct s.id from log l join session s on s.n = l.n
where l.id > :after and (s.host is null or s.host = :host)

-- name: writer_batch
select batch from writer where id = :id
