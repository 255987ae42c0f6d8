-- What only PostgreSQL needs, in the format of ../queries.sql.

-- name: known_origins
select origin from log where n = :n and origin is not null and md5(origin) = any(:digests)

-- name: touched
select distinct s.id from log l join session s on s.n = l.n
where l.id > :after and (s.host is null or s.host = any(:hosts))

-- name: claim_hostname
-- Sessions of older versions name a host; the first node of that name gets them, and no other one.
insert into meta (name, value) values (:name, :node) on conflict (name) do nothing

-- name: writer_batch
select batch from writer where id = :id
