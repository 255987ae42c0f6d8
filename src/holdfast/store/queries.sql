-- Every statement of both stores. A statement starts at a line `-- name: NAME | what it does` and ends at the next.
-- `:word` is a parameter, `blob` is bytea in PostgreSQL. SQLite and PostgreSQL share this file (see queries.py); what only one
-- of them needs (its tables, its locks) is in its own folder.

-- name: meta | One value of the store itself.
select value from meta where name = :name

-- name: set_meta | Set one value of the store itself.
insert into meta (name, value) values (:name, :value)
on conflict (name) do update set value = excluded.value

-- name: session | One session without its metadata.
select n, id, key, agent, cwd, host, title, state, worktree, archive, deletion, link, undone,
  version, created_at, updated_at, seq, messages, tasks
from session where id = :id

-- name: metadata | The metadata of one session, as bytes.
select cast(metadata as blob) as metadata from session where n = :n

-- name: last_task | The task of a session that was queued last.
select id as last_task, status as last_status from task where n = :n order by place desc limit 1

-- name: live_key | The live session that has a key.
select id from session where key = :key and state = 'live'

-- name: ids_like | Up to two session ids with a prefix, to resolve a short id.
select id from session where id like :pattern order by id limit 2

-- name: keyed | The session that a key names, a live one first.
select id from session where key = :key and state <> 'deleted'
order by case state when 'live' then 0 else 1 end, updated_at desc, n desc limit 1

-- name: sessions | A page of sessions, the latest first.
-- In the order of the fields of a header, then the other columns of a list.
select s.id, s.agent, s.state, s.created_at, s.updated_at, s.key, s.cwd, s.host, s.title,
  s.worktree, s.archive, s.deletion, s.link, s.version, s.undone, s.seq, s.messages, s.tasks,
  (select t.id from task t where t.n = s.n order by t.place desc limit 1) as last_task,
  (select t.status from task t where t.n = s.n order by t.place desc limit 1) as last_status,
  s.n, case when :metadata = 1 then cast(s.metadata as blob) end as metadata
from session s
where (:state = 'all' or s.state = :state or (:state = 'present' and s.state <> 'deleted'))
  and (:agent = '' or s.agent = :agent)
  and (:key = '' or s.key = :key)
  and (:pattern = '' or s.search like :pattern escape '\')
  and (:status = '' or :status = (select t.status from task t where t.n = s.n order by t.place desc limit 1))
  and (:empty = 1 or s.messages > 0 or s.tasks > 0 or s.worktree is not null)
  and (s.updated_at, s.n) < (:before_at, :before_n)
order by s.updated_at desc, s.n desc
limit :limit

-- name: add_session | Add a session.
insert into session (n, id, key, agent, cwd, host, title, state, worktree, archive, deletion, link, undone,
  metadata, version, created_at, updated_at, seq, messages, tasks, seal, search)
values (:n, :id, :key, :agent, :cwd, :host, :title, :state, :worktree, :archive, :deletion, :link,
  :undone, :metadata, :version, :created_at, :updated_at, :seq, :messages, :tasks, null, :search)

-- name: next_n | The next free session number.
select coalesce(max(n), 0) + 1 from session

-- name: put_session | Update the columns of a session.
update session set key = :key, agent = :agent, cwd = :cwd, host = :host, title = :title, state = :state,
  worktree = :worktree, archive = :archive, deletion = :deletion, link = :link, undone = :undone,
  version = :version, created_at = :created_at, updated_at = :updated_at, seq = :seq,
  messages = :messages, tasks = :tasks, search = :search
where n = :n

-- name: put_metadata | Update the metadata of a session.
update session set metadata = :metadata where n = :n

-- name: put_place | Update the counters of a session after new records.
update session set seq = :seq, messages = :messages, updated_at = :updated_at where n = :n

-- name: add_log | Add one record to a log.
insert into log (kind, at, replayed, origin, body, seq, id, n, task, spool, last)
values (:kind, :at, :replayed, :origin, :body, :seq, :id, :n, :task, :spool, :last)

-- name: sessions_with_record | The sessions that have a record with this seq and time.
-- Finds the session of a record from a damaged file by its time. Reads the whole log.
select s.id from log l join session s on s.n = l.n where l.seq = :seq and l.at = :at

-- name: move_session | Give a session a new number.
-- Only recovery moves a session: to a log without the altered records of the old one.
update session set n = :new where n = :n

-- name: move_tasks | Move tasks to a new session number.
update task set n = :new where n = :n

-- name: last_log | The position of the last record in the store.
select coalesce(max(id), 0) from log

-- name: log | Records of one session in order.
select seq, kind, at, task, replayed, origin, spool, last, body from log
where n = :n and seq > :after order by seq limit :limit

-- name: events | Records of one session for display.
-- On SQLite a damaged record does not hide the others.
select seq, kind, at, task, replayed, origin, spool, last, body from log
where n = :n and seq > :after order by seq limit :limit

-- name: task_log | Records of one task, of some kinds.
select seq, kind, at, task, replayed, origin, spool, last, body from log
where n = :n and task = :task and :kinds like '%,' || kind || ',%' order by seq

-- name: asked | Permission records of running tasks.
select s.id as session, t.id as task, l.at, l.body
from task t join session s on s.n = t.n join log l on l.n = t.n and l.task = t.id
where t.status in ('running', 'unreachable') and s.state <> 'deleted' and l.kind = 'permission' and not l.replayed
order by t.place, l.seq

-- name: log_origins | Origins of a session's records after a seq.
select origin from log where n = :n and seq > :after and origin is not null

-- name: changes | Records of all sessions in commit order, for the change feed.
select l.id, s.id as session, l.seq, l.kind, l.at, l.task, l.replayed, l.origin, l.spool, l.last, l.body
from log l join session s on s.n = l.n
where l.id > :after order by l.id limit :limit

-- name: tokens | The token lineage of a session.
select agent, native_id, protocol, seen_in, at, task, status, reason from token
where n = :n order by pos

-- name: put_token | Add a token or update it.
insert into token (n, pos, agent, native_id, protocol, seen_in, at, task, status, reason)
values (:n, :pos, :agent, :native_id, :protocol, :seen_in, :at, :task, :status, :reason)
on conflict (n, pos) do update set protocol = excluded.protocol, status = excluded.status, reason = excluded.reason

-- name: token_sessions | Sessions that ever had a token.
select distinct s.id from token t join session s on s.n = t.n
where t.agent = :agent and t.native_id = :native_id order by s.id

-- name: task | One task.
select t.id, s.id as session, t.prompt, t.status, t.queued_at, t.delivery, t.options, t.owner, t.generation,
  t.lease_until, t.spool, t.reason, t.outcome, t.retry_of, t.started_at, t.ended_at,
  t.waiting_for, t.not_before
from task t join session s on s.n = t.n where t.id = :id

-- name: tasks | Tasks in the order they were queued.
select t.id, s.id as session, t.prompt, t.status, t.queued_at, t.delivery, t.options, t.owner, t.generation,
  t.lease_until, t.spool, t.reason, t.outcome, t.retry_of, t.started_at, t.ended_at,
  t.waiting_for, t.not_before
from task t join session s on s.n = t.n
where (:session = '' or s.id = :session) and (:status = '' or t.status = :status)
  and (s.state <> 'deleted' or s.id = :session)
order by t.place limit :limit

-- name: latest_tasks | Tasks, the last queued first.
select t.id, s.id as session, t.prompt, t.status, t.queued_at, t.delivery, t.options, t.owner, t.generation,
  t.lease_until, t.spool, t.reason, t.outcome, t.retry_of, t.started_at, t.ended_at,
  t.waiting_for, t.not_before
from task t join session s on s.n = t.n
where (:session = '' or s.id = :session) and (:status = '' or t.status = :status)
  and (:cwd = '' or s.cwd = :cwd)
  and (:day = '' or substr(coalesce(t.ended_at, t.queued_at), 1, 10) = :day)
  and (s.state <> 'deleted' or s.id = :session)
order by t.place desc limit :limit

-- name: last_tasks | The last tasks of live sessions with this status, the last queued first.
select t.id, s.id as session, t.prompt, t.status, t.queued_at, t.delivery, t.options, t.owner, t.generation,
  t.lease_until, t.spool, t.reason, t.outcome, t.retry_of, t.started_at, t.ended_at,
  t.waiting_for, t.not_before
from task t join session s on s.n = t.n
where t.status = :status and s.state = 'live'
  and not exists (select 1 from task l where l.n = t.n and l.place > t.place)
order by t.place desc limit :limit

-- name: session_tasks | Tasks of one session, the last queued first.
select t.id, s.id as session, t.prompt, t.status, t.queued_at, t.delivery, t.options, t.owner, t.generation,
  t.lease_until, t.spool, t.reason, t.outcome, t.retry_of, t.started_at, t.ended_at,
  t.waiting_for, t.not_before
from task t join session s on s.n = t.n
where t.n = :n and (:status = '' or t.status = :status)
  and (:day = '' or substr(coalesce(t.ended_at, t.queued_at), 1, 10) = :day)
order by t.place desc limit :limit

-- name: first_task | The task of a session that was queued first.
select t.id, s.id as session, t.prompt, t.status, t.queued_at, t.delivery, t.options, t.owner, t.generation,
  t.lease_until, t.spool, t.reason, t.outcome, t.retry_of, t.started_at, t.ended_at,
  t.waiting_for, t.not_before
from task t join session s on s.n = t.n
where t.n = :n order by t.place limit 1

-- name: started_tasks | Tasks of a session that reached the agent, or may have.
-- The latest first; `log_evidence.touched` is the same test.
select t.id, s.id as session, t.prompt, t.status, t.queued_at, t.delivery, t.options, t.owner, t.generation,
  t.lease_until, t.spool, t.reason, t.outcome, t.retry_of, t.started_at, t.ended_at,
  t.waiting_for, t.not_before
from task t join session s on s.n = t.n
where t.n = :n and t.id <> :but and (t.delivery = 'accepted'
  or (t.delivery = 'sent' and t.status in ('cancelled', 'interrupted', 'running', 'unreachable')))
order by t.place desc limit :limit

-- name: first_started_task | The first task of a session that reached the agent, or may have.
select t.id, s.id as session, t.prompt, t.status, t.queued_at, t.delivery, t.options, t.owner, t.generation,
  t.lease_until, t.spool, t.reason, t.outcome, t.retry_of, t.started_at, t.ended_at,
  t.waiting_for, t.not_before
from task t join session s on s.n = t.n
where t.n = :n and (t.delivery = 'accepted'
  or (t.delivery = 'sent' and t.status in ('cancelled', 'interrupted', 'running', 'unreachable')))
order by t.place limit 1

-- name: started_count | How many tasks of a session reached the agent, or may have.
select count(*) from task t
where t.n = :n and (t.delivery = 'accepted'
  or (t.delivery = 'sent' and t.status in ('cancelled', 'interrupted', 'running', 'unreachable')))

-- name: unsuccessful_task | One task of a session that ended without success.
select t.id from task t
where t.n = :n and t.status in ('interrupted', 'cancelled', 'failed') order by t.place desc limit 1

-- name: key_task | One task of any session with a key.
select t.id from session s join task t on t.n = s.n where s.key = :key limit 1

-- name: delivered_tasks | Tasks of a key whose options contain a text.
select t.id, s.id as session, t.prompt, t.status, t.queued_at, t.delivery, t.options, t.owner, t.generation,
  t.lease_until, t.spool, t.reason, t.outcome, t.retry_of, t.started_at, t.ended_at,
  t.waiting_for, t.not_before
from task t join session s on s.n = t.n
where s.key = :key and t.options like :pattern escape '\' order by t.place

-- name: redispatchable_tasks | Tasks that can be dispatched again.
-- The last started task of a live session, if it has one of these statuses and no retry.
select t.id, s.id as session, t.prompt, t.status, t.queued_at, t.delivery, t.options, t.owner, t.generation,
  t.lease_until, t.spool, t.reason, t.outcome, t.retry_of, t.started_at, t.ended_at,
  t.waiting_for, t.not_before
from task t join session s on s.n = t.n
where t.status in ('interrupted', 'failed', 'cancelled') and :statuses like '%,' || t.status || ',%'
  and (t.status <> 'interrupted' or t.delivery <> 'waiting')
  and s.state = 'live' and (:key = '' or s.key = :key) and (:session = '' or s.id = :session)
  and (:task = '' or t.id = :task)
  and not exists (select 1 from task r where r.retry_of = t.id)
  and not exists (select 1 from task l where l.n = t.n and l.place > t.place and (l.delivery = 'accepted'
    or (l.delivery = 'sent' and l.status in ('cancelled', 'interrupted', 'running', 'unreachable'))))
order by t.place

-- name: interrupted_tasks | Interrupted tasks that are the last of a live session.
select t.id, s.id as session, t.prompt, t.status, t.queued_at, t.delivery, t.options, t.owner, t.generation,
  t.lease_until, t.spool, t.reason, t.outcome, t.retry_of, t.started_at, t.ended_at,
  t.waiting_for, t.not_before
from task t join session s on s.n = t.n
where t.status = 'interrupted' and s.state = 'live'
  and t.place = (select max(l.place) from task l where l.n = t.n)
order by t.place desc limit :limit

-- name: interrupted_count | How many live sessions end with an interrupted task.
select count(*) from task t join session s on s.n = t.n
where t.status = 'interrupted' and s.state = 'live'
  and t.place = (select max(l.place) from task l where l.n = t.n)

-- name: task_days | Ended tasks counted by day and status.
select substr(t.ended_at, 1, 10) as day, t.status, count(*) from task t join session s on s.n = t.n
where t.ended_at >= :since and s.state <> 'deleted' group by substr(t.ended_at, 1, 10), t.status order by 1, 2

-- name: task_counts | Tasks counted by status and agent.
select t.status, s.agent, count(*) from task t join session s on s.n = t.n
where s.state <> 'deleted' group by t.status, s.agent order by 1, 2

-- name: session_counts | Sessions counted by state and agent.
select state, agent, count(*) from session
where messages > 0 or tasks > 0 or worktree is not null
group by state, agent order by 1, 2

-- name: token_ids | All native ids of an agent.
select distinct native_id from token where agent = :agent

-- name: task_ids_like | Up to two task ids with a prefix, to resolve a short id.
select id from task where id like :pattern order by id limit 2

-- name: active_tasks | Tasks of a session that run.
select t.id from task t where t.n = :n and t.status in ('running', 'unreachable')

-- name: open_tasks | Tasks of a session that have not ended.
-- The plus keeps SQLite on the index of statuses: few tasks are open, and a session may have thousands.
select t.id, t.status from task t
where +t.n = :n and t.status in ('running', 'unreachable', 'queued', 'waiting') order by t.place

-- name: retried | The retry of a task.
select id from task where retry_of = :retry_of

-- name: rivals | A running task on the same session or the same native conversation.
select t.id from task t
where t.status in ('running', 'unreachable') and t.id <> :task and (
  t.n = :n or exists (
    select 1 from token mine join token theirs
      on theirs.agent = mine.agent and theirs.native_id = mine.native_id
    where mine.n = :n and mine.status = 'current' and theirs.n = t.n and theirs.status = 'current'))
order by t.place limit 1

-- name: turns | A snapshot of the queue and of what runs.
select t.id as task, s.id as session, s.agent, s.host, t.status, t.generation, t.owner, t.lease_until, t.options,
  t.not_before
from task t join session s on s.n = t.n
where t.status in ('running', 'unreachable') or (t.status in ('queued', 'waiting') and s.state = 'live')
order by t.place

-- name: unrecorded | Live sessions with a token but without a task.
-- The token comes from a run, and no notice reports it. The logs are read last, and only those of these
-- sessions: otherwise every start would read all logs.
with lone as materialized (
  select s.n, s.id from session s
  where s.state = 'live' and s.tasks = 0 and (s.host is null or s.host = :host)
    and exists (select 1 from token k
      where k.n = s.n and k.status = 'current' and k.seen_in in ('stream', 'chosen')))
select lone.id from lone
where not exists (select 1 from log l where l.n = lone.n and l.kind = 'notice' and l.body like :said)

-- name: put_task | Add a task or update it.
insert into task (id, n, place, prompt, status, queued_at, delivery, options, owner, generation,
  lease_until, spool, reason, outcome, retry_of, started_at, ended_at, waiting_for, not_before)
values (:id, :n, (select coalesce(max(place), 0) + 1 from task), :prompt, :status, :queued_at, :delivery,
  :options, :owner, :generation, :lease_until, :spool, :reason, :outcome, :retry_of, :started_at, :ended_at,
  :waiting_for, :not_before)
on conflict (id) do update set status = excluded.status, delivery = excluded.delivery,
  owner = excluded.owner, generation = excluded.generation, lease_until = excluded.lease_until,
  spool = excluded.spool, reason = excluded.reason, outcome = excluded.outcome,
  started_at = excluded.started_at, ended_at = excluded.ended_at, waiting_for = excluded.waiting_for,
  not_before = excluded.not_before

-- name: put_spool | Update the spool offset of a task.
update task set spool = :spool where id = :id

-- name: put_lease | Extend the lease of a running task.
update task set lease_until = :lease_until
where id = :id and generation = :generation and status in ('running', 'unreachable')

-- name: heads | One line for every session, to compare with its mirror.
select n, id, state, seq, seal, host, deletion, undone from session order by n

-- name: put_seal | Remember the state of a mirror that is in sync.
update session set seal = :seal where id = :id

-- name: drop_tokens | Delete the tokens of a session before a rebuild.
delete from token where n = :n

-- name: tasks_of | Ids of the tasks of a session.
select id from task where n = :n

-- name: drop_task | Delete a task before a rebuild.
delete from task where id = :id

-- name: put_task_again | Rewrite a task from its log.
update task set n = :n, prompt = :prompt, queued_at = :queued_at, options = :options, retry_of = :retry_of
where id = :id

-- name: order_queue | Number the queue again by the time of queueing, after a rebuild.
update task set place = r.place
from (select id, row_number() over (order by queued_at, place) as place from task) r
where r.id = task.id and task.place <> r.place

-- name: put_notification | Queue a notification, unless the same is there.
insert into notification (id, node, channel, kind, session, task, body, created_at, due_at, status, tries, problem, ended_at)
values (:id, :node, :channel, :kind, :session, :task, :body, :created_at, :due_at, :status, :tries, :problem, :ended_at)
on conflict (id) do nothing

-- name: set_notification | Record what became of a notification.
update notification set due_at = :due_at, status = :status, tries = :tries, problem = :problem, ended_at = :ended_at
where id = :id

-- name: due_notifications | Notifications whose time has come.
select id, node, channel, kind, session, task, body, created_at, due_at, status, tries, problem, ended_at
from notification where node = :node and status = 'waiting' and due_at <= :now order by due_at, id limit :limit

-- name: next_notification | When the next notification is due.
select min(due_at) from notification where node = :node and status = 'waiting'

-- name: latest_notifications | Notifications, the latest first.
select id, node, channel, kind, session, task, body, created_at, due_at, status, tries, problem, ended_at
from notification order by created_at desc, id limit :limit

-- name: old_notification | Whether a notification ended before a time.
select id from notification where status <> 'waiting' and ended_at < :before limit 1

-- name: trim_notifications | Forget notifications that ended before a time.
delete from notification where status <> 'waiting' and ended_at < :before
