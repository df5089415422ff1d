"""Breakers, rate windows and the budget, with the functions that admit a call; the queue; who is running.

The functions are SQL because an admission is one round trip and one transaction, whichever process asks: what is read
there is locked there. Each takes ``p_now`` so that tests own the clock; callers leave it out.
"""

from __future__ import annotations

from alembic import op
from procrastinate.schema import SchemaManager
from sqlalchemy import text

from agenttrace.run.postgres.migrations import writing
from agenttrace.run.postgres.pool import QUEUE_SCHEMA

revision = "0003"
down_revision = "0002"

_TABLES = """
CREATE TABLE biz.ai_processes (
    id UUID PRIMARY KEY,
    role VARCHAR(20) NOT NULL,
    host VARCHAR(200) NOT NULL,
    pid INTEGER NOT NULL,
    started_at TIMESTAMPTZ NOT NULL DEFAULT now(),
    seen_at TIMESTAMPTZ NOT NULL DEFAULT now()
);

CREATE TABLE biz.ai_breakers (
    app_id VARCHAR(100) PRIMARY KEY,
    state VARCHAR(10) NOT NULL DEFAULT 'closed' CHECK (state IN ('closed', 'open', 'half_open')),
    failure_count INTEGER NOT NULL DEFAULT 0,
    last_failure_at TIMESTAMPTZ,
    changed_at TIMESTAMPTZ NOT NULL DEFAULT now(),
    -- Opened by hand: stays open until it is closed by hand.
    held BOOLEAN NOT NULL DEFAULT false,
    probe_key UUID,
    probe_until TIMESTAMPTZ
);

-- Calls under rules of the same length share a window. One of another length is apart: what a minute may forget, an
-- hour still counts.
CREATE TABLE biz.ai_rate_windows (
    scope VARCHAR(20) NOT NULL,
    key VARCHAR(100) NOT NULL,
    span INTERVAL NOT NULL,
    hits TIMESTAMPTZ[] NOT NULL DEFAULT '{}',
    last_at TIMESTAMPTZ NOT NULL DEFAULT now(),
    PRIMARY KEY (scope, key, span)
) WITH (fillfactor = 70);

-- The sums of ai_run_logs by day, kept by a trigger: what refuses a call is what is shown. A day is the sum of its
-- slots: whoever settles keeps its slot locked until its commit is on the disk, and others need not wait for that.
CREATE TABLE biz.ai_budget_days (
    day DATE NOT NULL,
    slot SMALLINT NOT NULL,
    used BIGINT NOT NULL DEFAULT 0,
    failed BIGINT NOT NULL DEFAULT 0,
    reserved BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (day, slot)
) WITH (fillfactor = 50);

CREATE TABLE biz.ai_business_zone (
    one BOOLEAN PRIMARY KEY DEFAULT true CHECK (one),
    zone VARCHAR(60) NOT NULL
);
-- No zone yet: the first one set adds up what is there already.
INSERT INTO biz.ai_business_zone (zone) VALUES ('');
"""

_BUDGET = """
CREATE FUNCTION biz.ai_run_logs_account() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    -- Admissions have a slot of their own.
    v_slot SMALLINT := CASE TG_OP WHEN 'INSERT' THEN 0 ELSE 1 + pg_backend_pid() % 4 END;
    v_before DATE := biz.ai_business_day(coalesce(old.created_at, new.created_at));
    v_day DATE := biz.ai_business_day(coalesce(new.created_at, old.created_at));
    v_used BIGINT := CASE new.status WHEN 'success' THEN coalesce(new.tokens_used, 0) ELSE 0 END
        - CASE old.status WHEN 'success' THEN coalesce(old.tokens_used, 0) ELSE 0 END;
    v_failed BIGINT := CASE WHEN new.status NOT IN ('success', 'pending', 'running') THEN coalesce(new.tokens_used, 0)
                            ELSE 0 END
        - CASE WHEN old.status NOT IN ('success', 'pending', 'running') THEN coalesce(old.tokens_used, 0) ELSE 0 END;
    v_reserved BIGINT := CASE WHEN new.status IN ('pending', 'running') THEN new.tokens_reserved ELSE 0 END
        - CASE WHEN old.status IN ('pending', 'running') THEN old.tokens_reserved ELSE 0 END;
BEGIN
    IF v_before = v_day THEN
        UPDATE biz.ai_budget_days AS t
            SET used = t.used + v_used, failed = t.failed + v_failed, reserved = t.reserved + v_reserved
            WHERE t.day = v_day AND t.slot = v_slot;
        IF FOUND THEN
            RETURN NULL;
        END IF;
    END IF;
    -- The first of its day, or moved to another one. By day, so that two that charge the same days lock them in the
    -- same order.
    INSERT INTO biz.ai_budget_days AS t (day, slot, used, failed, reserved)
        SELECT biz.ai_business_day(c.at), v_slot,
               sum(CASE WHEN c.status = 'success' THEN c.used ELSE 0 END),
               sum(CASE WHEN c.status IN ('success', 'pending', 'running') THEN 0 ELSE c.used END),
               sum(CASE WHEN c.status IN ('pending', 'running') THEN c.reserved ELSE 0 END)
        FROM (VALUES (old.created_at, old.status, -coalesce(old.tokens_used, 0), -old.tokens_reserved),
                     (new.created_at, new.status, coalesce(new.tokens_used, 0), new.tokens_reserved)
             ) AS c (at, status, used, reserved)
        WHERE c.at IS NOT NULL GROUP BY 1 ORDER BY 1
        ON CONFLICT (day, slot) DO UPDATE SET used = t.used + excluded.used, failed = t.failed + excluded.failed,
                                              reserved = t.reserved + excluded.reserved;
    RETURN NULL;
END $$;
-- Deferred: the sums are locked from the commit on, not while their caller still has other things to write (or hangs).
CREATE CONSTRAINT TRIGGER ai_run_logs_account_new AFTER INSERT ON biz.ai_run_logs
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (new.tokens_used <> 0 OR new.tokens_reserved <> 0)
    EXECUTE FUNCTION biz.ai_run_logs_account();
CREATE CONSTRAINT TRIGGER ai_run_logs_account_gone AFTER DELETE ON biz.ai_run_logs
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (old.tokens_used <> 0 OR old.tokens_reserved <> 0)
    EXECUTE FUNCTION biz.ai_run_logs_account();
CREATE CONSTRAINT TRIGGER ai_run_logs_account_changed AFTER UPDATE ON biz.ai_run_logs
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    -- From pending to running nothing changes for the budget.
    WHEN ((replace(old.status, 'pending', 'running'), old.tokens_used, old.tokens_reserved, old.created_at)
          IS DISTINCT FROM
          (replace(new.status, 'pending', 'running'), new.tokens_used, new.tokens_reserved, new.created_at))
    EXECUTE FUNCTION biz.ai_run_logs_account();

CREATE FUNCTION biz.ai_run_logs_emptied() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM biz.ai_budget_days;
    RETURN NULL;
END $$;
CREATE TRIGGER ai_run_logs_emptied AFTER TRUNCATE ON biz.ai_run_logs EXECUTE FUNCTION biz.ai_run_logs_emptied();

-- Another business time zone means other days: the sums are made anew.
CREATE FUNCTION biz.ai_set_business_zone(p_zone TEXT) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM biz.ai_business_zone WHERE zone = p_zone) THEN
        RETURN;
    END IF;
    -- An unknown zone is refused here; later it would stop every call.
    PERFORM now() AT TIME ZONE p_zone;
    -- Who charges a day has written to the run log before, so nobody does meanwhile.
    LOCK TABLE biz.ai_run_logs IN SHARE ROW EXCLUSIVE MODE;
    UPDATE biz.ai_business_zone SET zone = p_zone;
    -- The zone as a constant: every call asks for its day, more than once.
    EXECUTE format('CREATE OR REPLACE FUNCTION biz.ai_business_day(p_at TIMESTAMPTZ) RETURNS DATE LANGUAGE sql STABLE'
                   ' AS %L', format('SELECT (p_at AT TIME ZONE %L)::date', p_zone));
    DELETE FROM biz.ai_budget_days;
    INSERT INTO biz.ai_budget_days (day, slot, used, failed, reserved)
        SELECT biz.ai_business_day(created_at), 0,
               coalesce(sum(tokens_used) FILTER (WHERE status = 'success'), 0),
               coalesce(sum(tokens_used) FILTER (WHERE status NOT IN ('success', 'pending', 'running')), 0),
               coalesce(sum(tokens_reserved) FILTER (WHERE status IN ('pending', 'running')), 0)
        FROM biz.ai_run_logs GROUP BY 1;
END $$;
"""

_BREAKERS = """
-- 'closed' and 'half_open' (for the one probe) let the call through, 'open' refuses it.
CREATE FUNCTION biz.ai_breaker_check(
    p_app TEXT, p_key UUID, p_recovery INTERVAL, p_lease INTERVAL, p_now TIMESTAMPTZ DEFAULT NULL,
    OUT state TEXT, OUT retry_after DOUBLE PRECISION
) LANGUAGE plpgsql AS $$
DECLARE
    b biz.ai_breakers;
    v_now TIMESTAMPTZ;
BEGIN
    retry_after := 0;
    SELECT * INTO b FROM biz.ai_breakers WHERE app_id = p_app;
    IF NOT FOUND OR b.state = 'closed' THEN
        state := 'closed';
        RETURN;
    END IF;
    SELECT * INTO b FROM biz.ai_breakers WHERE app_id = p_app FOR UPDATE;
    v_now := coalesce(p_now, clock_timestamp());
    IF b.state = 'closed' THEN
        state := 'closed';
    ELSIF b.held THEN
        state := 'open';
        retry_after := extract(epoch FROM p_recovery);
    ELSIF b.state = 'open' AND v_now < b.changed_at + p_recovery THEN
        state := 'open';
        retry_after := extract(epoch FROM b.changed_at + p_recovery - v_now);
    ELSIF b.state = 'half_open' AND b.probe_until > v_now AND (p_key IS NULL OR b.probe_key IS DISTINCT FROM p_key) THEN
        state := 'open';
        retry_after := least(extract(epoch FROM b.probe_until - v_now), extract(epoch FROM p_recovery));
    ELSE
        state := 'half_open';
        PERFORM set_config('synchronous_commit', 'off', true);
        UPDATE biz.ai_breakers AS t
            SET state = 'half_open', probe_key = p_key, probe_until = v_now + p_lease,
                changed_at = CASE WHEN t.state = 'half_open' THEN t.changed_at ELSE v_now END
            WHERE t.app_id = p_app;
    END IF;
END $$;

-- p_key NULL: whoever tells it is taken for the probe. The statement that settles a call does this as well, and that
-- one has to reach the disk.
CREATE FUNCTION biz.ai_breaker_heal(p_app TEXT, p_key UUID, p_now TIMESTAMPTZ DEFAULT NULL)
RETURNS BOOLEAN LANGUAGE plpgsql AS $$
BEGIN
    UPDATE biz.ai_breakers
        SET changed_at = CASE WHEN state = 'half_open' THEN coalesce(p_now, clock_timestamp()) ELSE changed_at END,
            state = 'closed', failure_count = 0, probe_key = NULL, probe_until = NULL
        WHERE app_id = p_app AND NOT held
            AND ((state = 'closed' AND failure_count > 0)
                 OR (state = 'half_open' AND (p_key IS NULL OR probe_key = p_key)));
    RETURN FOUND;
END $$;

-- What a crash of the server may lose of a breaker is not worth a wait for the disk, here and below.
CREATE FUNCTION biz.ai_breaker_success(p_app TEXT, p_key UUID, p_now TIMESTAMPTZ DEFAULT NULL)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    PERFORM biz.ai_breaker_heal(p_app, p_key, p_now);
END $$;

CREATE FUNCTION biz.ai_breaker_failure(p_app TEXT, p_key UUID, p_threshold INTEGER, p_now TIMESTAMPTZ DEFAULT NULL)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    b biz.ai_breakers;
    v_now TIMESTAMPTZ;
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    INSERT INTO biz.ai_breakers (app_id) VALUES (p_app) ON CONFLICT DO NOTHING;
    SELECT * INTO b FROM biz.ai_breakers WHERE app_id = p_app FOR UPDATE;
    v_now := coalesce(p_now, clock_timestamp());
    UPDATE biz.ai_breakers SET failure_count = failure_count + 1, last_failure_at = v_now WHERE app_id = p_app;
    IF (b.state = 'closed' AND b.failure_count + 1 >= p_threshold)
            OR (b.state = 'half_open' AND (p_key IS NULL OR b.probe_key = p_key)) THEN
        UPDATE biz.ai_breakers SET state = 'open', changed_at = v_now, probe_key = NULL, probe_until = NULL
            WHERE app_id = p_app;
    END IF;
END $$;

-- The probe was cancelled or failed through its own fault: the next caller may try.
CREATE FUNCTION biz.ai_breaker_release(p_app TEXT, p_key UUID) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    UPDATE biz.ai_breakers SET probe_key = NULL, probe_until = NULL
        WHERE app_id = p_app AND state = 'half_open' AND (p_key IS NULL OR probe_key = p_key);
END $$;
"""

_RATES = """
CREATE FUNCTION biz.ai_rate_hit(
    p_scope TEXT, p_key TEXT, p_limit INTEGER, p_window INTERVAL, p_now TIMESTAMPTZ DEFAULT NULL,
    OUT allowed BOOLEAN, OUT retry_after DOUBLE PRECISION
) LANGUAGE plpgsql AS $$
DECLARE
    h TIMESTAMPTZ[];
    v_first INTEGER := 1;
    v_now TIMESTAMPTZ;
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    LOOP
        SELECT hits INTO h FROM biz.ai_rate_windows
            WHERE scope = p_scope AND key = p_key AND span = p_window FOR UPDATE;
        EXIT WHEN FOUND;
        -- Again and again: an idle window may be forgotten between these two.
        INSERT INTO biz.ai_rate_windows (scope, key, span, last_at)
            VALUES (p_scope, p_key, p_window, coalesce(p_now, clock_timestamp())) ON CONFLICT DO NOTHING;
    END LOOP;
    -- The clock is read once the row is ours, or a caller that waited would count from before its turn.
    v_now := coalesce(p_now, clock_timestamp());
    WHILE h[v_first] <= v_now - p_window LOOP
        v_first := v_first + 1;
    END LOOP;
    h := h[v_first:];
    allowed := cardinality(h) < p_limit;
    retry_after := 0;
    IF allowed THEN
        h := h || v_now;
        IF v_now < h[cardinality(h) - 1] THEN
            -- The clock was put back.
            h := ARRAY(SELECT t FROM unnest(h) AS t ORDER BY t);
        END IF;
        UPDATE biz.ai_rate_windows SET hits = h, last_at = greatest(last_at, v_now)
            WHERE scope = p_scope AND key = p_key AND span = p_window;
    ELSIF p_limit > 0 THEN
        retry_after := extract(epoch FROM h[cardinality(h) - p_limit + 1] + p_window - v_now);
    ELSE
        retry_after := extract(epoch FROM p_window);
    END IF;
END $$;
"""

_ADMISSION = """
-- One admission: breaker, rate, budget, and the row of the run log, whatever the answer is.
CREATE FUNCTION biz.ai_admit(
    p_call_key UUID, p_process UUID, p_app_id TEXT, p_app_type TEXT, p_trigger_type TEXT,
    p_site BIGINT, p_member BIGINT, p_user TEXT, p_prompt TEXT, p_session TEXT, p_conversation BIGINT,
    p_job BIGINT, p_step TEXT, p_claim INTEGER,
    p_estimate INTEGER, p_scope TEXT, p_rate_key TEXT, p_limit INTEGER, p_window INTERVAL,
    p_recovery INTERVAL, p_lease INTERVAL, p_daily BIGINT, p_monthly BIGINT, p_now TIMESTAMPTZ DEFAULT NULL,
    OUT verdict TEXT, OUT log_id BIGINT, OUT retry_after DOUBLE PRECISION, OUT message TEXT
) LANGUAGE plpgsql AS $$
DECLARE
    r RECORD;
    v_now TIMESTAMPTZ;
    v_today DATE;
    v_month DATE;
    v_used BIGINT;
    v_used_in_month BIGINT;
BEGIN
    retry_after := 0;
    -- A reservation that a crash of the server loses is lost with its call; settling writes the row anew.
    PERFORM set_config('synchronous_commit', 'off', true);
    SELECT l.id, l.status, l.error_message, l.finished_at INTO r
        FROM biz.ai_run_logs AS l WHERE l.call_key = p_call_key;
    IF FOUND THEN
        -- Asked before; the answer got lost. How long a refused one had to wait is not kept: at most this long.
        log_id := r.id;
        verdict := CASE WHEN r.status = 'running' THEN 'admitted' ELSE r.status END;
        message := r.error_message;
        v_now := coalesce(p_now, clock_timestamp());
        IF verdict = 'rate_limited' THEN
            retry_after := greatest(0, extract(epoch FROM r.finished_at + p_window - v_now));
        ELSIF verdict = 'circuit_open' THEN
            retry_after := greatest(0, extract(epoch FROM r.finished_at + p_recovery - v_now));
        END IF;
        RETURN;
    END IF;
    IF p_job IS NOT NULL THEN
        SELECT j.claim, j.status, j.cancel_requested INTO r FROM biz.ai_trigger_jobs AS j WHERE j.id = p_job;
        IF r.claim IS DISTINCT FROM p_claim OR r.status IS DISTINCT FROM 'running' THEN
            verdict := 'superseded';
            RETURN;
        ELSIF r.cancel_requested THEN
            verdict := 'cancelled';
            RETURN;
        END IF;
    END IF;
    verdict := 'admitted';
    r := biz.ai_breaker_check(p_app_id, p_call_key, p_recovery, p_lease, p_now);
    IF r.state = 'open' THEN
        verdict := 'circuit_open';
        retry_after := r.retry_after;
        message := format('the circuit of %s is open for another %s s', p_app_type, ceil(retry_after));
    ELSE
        r := biz.ai_rate_hit(p_scope, p_rate_key, p_limit, p_window, p_now);
        IF NOT r.allowed THEN
            verdict := 'rate_limited';
            retry_after := r.retry_after;
            message := format('%s calls in %s s are all that a %s may make; the next one fits in %s s', p_limit,
                              extract(epoch FROM p_window)::double precision, p_scope, ceil(retry_after));
        END IF;
    END IF;
    IF verdict = 'admitted' THEN
        -- One at a time from here: what one reserves is seen by the next, at midnight too. (Any number that is ours.)
        PERFORM pg_advisory_xact_lock(1634158692);
    END IF;
    v_now := coalesce(p_now, clock_timestamp());
    IF verdict = 'admitted' THEN
        v_today := biz.ai_business_day(v_now);
        v_month := date_trunc('month', v_today::timestamp)::date;
        SELECT coalesce(sum(s.used + s.failed + s.reserved) FILTER (WHERE s.day = v_today), 0),
               coalesce(sum(s.used + s.failed + s.reserved), 0)
            INTO v_used, v_used_in_month FROM biz.ai_budget_days AS s
            WHERE s.day >= v_month AND s.day < (v_month + interval '1 month')::date;
        IF v_used >= p_daily OR v_used + p_estimate > p_daily THEN
            message := format('daily_exceeded: %s of the day''s %s tokens are used or reserved, this call needs'
                              ' about %s', v_used, p_daily, p_estimate);
        ELSIF v_used_in_month >= p_monthly OR v_used_in_month + p_estimate > p_monthly THEN
            message := format('monthly_exceeded: %s of the month''s %s tokens are used or reserved, this call needs'
                              ' about %s', v_used_in_month, p_monthly, p_estimate);
        END IF;
        IF message IS NOT NULL THEN
            verdict := 'budget_exceeded';
        END IF;
    END IF;
    IF verdict IN ('rate_limited', 'budget_exceeded') THEN
        -- The probe slot that this call may just have taken is free again.
        PERFORM biz.ai_breaker_release(p_app_id, p_call_key);
    END IF;
    -- pending and running are one moment here, so nobody could see the row as pending.
    INSERT INTO biz.ai_run_logs (
        call_key, process_id, site_id, app_type, trigger_type, member_id, user_id, request_prompt, session_id,
        conversation_id, trigger_job_id, step, tokens_reserved, status, error_message, created_at, finished_at
    ) VALUES (
        p_call_key, p_process, p_site, p_app_type, p_trigger_type, p_member, p_user, left(p_prompt, 2000), p_session,
        p_conversation, p_job, p_step, CASE WHEN verdict = 'admitted' THEN p_estimate ELSE 0 END,
        CASE WHEN verdict = 'admitted' THEN 'running' ELSE verdict END, message,
        v_now, CASE WHEN verdict = 'admitted' THEN NULL ELSE v_now END
    ) RETURNING id INTO log_id;
END $$;
"""


def _execute(sql: str) -> None:
    """Run SQL in which a colon is no parameter and a percent sign stands for itself."""
    op.execute(text(sql.replace(":", r"\:")))


def upgrade() -> None:
    """Create the guards and the queue."""
    for part in (_TABLES, _BUDGET, _BREAKERS, _RATES, _ADMISSION):
        _execute(part)
    for part in (writing.CACHE, writing.CLUES, writing.CONVERSATIONS, writing.ANSWERS):
        _execute(part)
    op.execute("SELECT biz.ai_set_business_zone('Asia/Shanghai')")
    op.execute(f"CREATE SCHEMA {QUEUE_SCHEMA}")
    op.execute(f"SET LOCAL search_path TO {QUEUE_SCHEMA}")
    _execute(SchemaManager.get_schema())
    op.execute("RESET search_path")


def downgrade() -> None:
    """Drop the guards and the queue, with the jobs that wait in it."""
    op.execute(f"DROP SCHEMA {QUEUE_SCHEMA} CASCADE")
    op.execute(writing.DROPPED)
    op.execute("""
DROP FUNCTION biz.ai_admit, biz.ai_rate_hit, biz.ai_breaker_release, biz.ai_breaker_failure, biz.ai_breaker_success,
    biz.ai_breaker_heal, biz.ai_breaker_check, biz.ai_set_business_zone;
DROP TRIGGER ai_run_logs_account_new ON biz.ai_run_logs;
DROP TRIGGER ai_run_logs_account_gone ON biz.ai_run_logs;
DROP TRIGGER ai_run_logs_account_changed ON biz.ai_run_logs;
DROP TRIGGER ai_run_logs_emptied ON biz.ai_run_logs;
DROP FUNCTION biz.ai_run_logs_account, biz.ai_run_logs_emptied, biz.ai_business_day;
DROP TABLE biz.ai_business_zone, biz.ai_budget_days, biz.ai_rate_windows, biz.ai_breakers, biz.ai_processes;
""")
