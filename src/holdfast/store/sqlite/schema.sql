-- The whole schema of the first version. `log` is the truth; the other tables are views of it.
create table meta (name text primary key, value text not null) without rowid;

create table session (
  n integer primary key,           -- short name inside this database
  id text not null unique,
  key text,
  agent text not null,
  cwd text,
  host text,
  title text,
  state text not null check (state in ('live', 'archived', 'deleted')),
  worktree text,                   -- JSON, as are archive, deletion and link
  archive text,
  deletion text,
  link text,
  undone text,
  metadata blob not null,          -- JSON object; bytes, so that nothing is hidden if it is not
  version integer not null,
  created_at text not null,
  updated_at text not null,
  seq integer not null,            -- the last record's
  messages integer not null,
  tasks integer not null,
  seal text,                       -- the mirror when it was last level and on disk: seq/bytes/mtime
  search text not null
);
create unique index session_live_key on session (key) where state = 'live' and key is not null;
create index session_key on session (key) where key is not null;
create index session_recent on session (updated_at, n);

create table log (
  id integer primary key,          -- commit order over all sessions: the change feed's cursor
  n integer not null,
  seq integer not null,
  kind text not null,
  at text not null,
  task text,
  replayed integer not null,
  origin text,
  spool integer,                   -- on a commit's last record
  last integer not null,           -- whether this is one
  body text not null
);
create unique index log_place on log (n, seq);

create table token (
  n integer not null,
  pos integer not null,
  agent text not null,
  native_id text not null,
  protocol text,
  seen_in text not null,
  at text not null,
  task text,
  status text not null check (status in ('current', 'superseded', 'revoked')),
  reason text,
  primary key (n, pos)
) without rowid;
create index token_native on token (agent, native_id);

create table task (
  id text primary key,
  n integer not null,
  place integer not null,          -- order in the queue
  prompt text not null,            -- JSON string, so that any text fits
  status text not null,
  queued_at text not null,
  delivery text not null,
  options text not null,
  owner text,
  generation integer not null,
  lease_until text,
  spool integer not null,
  reason text,
  outcome text,
  retry_of text unique,
  started_at text,
  ended_at text,
  waiting_for text,                -- JSON
  not_before text
) without rowid;
create index task_session on task (n, place);
create index task_status on task (status, place);

-- The outbox: messages for people, one row per channel.
create table notification (
  id text primary key,
  node text not null,
  channel text not null,
  kind text not null,
  session text not null,
  task text,
  body text not null,
  created_at text not null,
  due_at text not null,
  status text not null,
  tries integer not null,
  problem text,
  ended_at text
) without rowid;
create index notification_due on notification (node, status, due_at);
