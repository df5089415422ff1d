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

-- One writer a target at a time; the row to be replaced may not exist yet, so there is none to lock.
CREATE FUNCTION biz.ai_cache_lock(p_type TEXT, p_site BIGINT, p_target TEXT) RETURNS BOOLEAN LANGUAGE sql AS $$
    SELECT true FROM pg_advisory_xact_lock(hashtextextended(concat_ws(':', 'ai_cache', p_type, p_site, p_target), 0))
$$;

CREATE FUNCTION biz.ai_cache_begin(
    p_type TEXT, p_site BIGINT, p_target TEXT, p_by TEXT, p_lease DOUBLE PRECISION, p_now TIMESTAMPTZ DEFAULT NULL,
    OUT generating BIGINT
) LANGUAGE plpgsql AS $$
DECLARE
    v_now TIMESTAMPTZ;
BEGIN
    -- Work that a crash of the server makes everybody forget is begun again.
    PERFORM set_config('synchronous_commit', 'off', true);
    PERFORM biz.ai_cache_lock(p_type, p_site, p_target);
    v_now := coalesce(p_now, clock_timestamp());
    -- A new row, not a renewed one: its former owner must not take it for its own.
    UPDATE biz.ai_cache SET status = 'expired'
        WHERE cache_type = p_type AND site_id = p_site AND target_id = p_target AND status = 'generating'
            AND expires_at <= v_now;
    INSERT INTO biz.ai_cache (cache_type, site_id, target_id, triggered_by, status, created_at, expires_at)
        VALUES (p_type, p_site, p_target, p_by, 'generating', v_now, v_now + make_interval(secs => p_lease))
        ON CONFLICT (cache_type, site_id, target_id) WHERE status = 'generating' DO NOTHING
        RETURNING id INTO generating;
END $$;

CREATE FUNCTION biz.ai_cache_store(
    p_type TEXT, p_site BIGINT, p_target TEXT, p_result JSONB, p_by TEXT, p_expires TIMESTAMPTZ,
    p_generating BIGINT DEFAULT NULL, p_now TIMESTAMPTZ DEFAULT NULL, OUT stored BIGINT
) LANGUAGE plpgsql AS $$
DECLARE
    v_now TIMESTAMPTZ;
BEGIN
    PERFORM biz.ai_cache_lock(p_type, p_site, p_target);
    v_now := coalesce(p_now, clock_timestamp());
    UPDATE biz.ai_cache SET status = 'expired'
        WHERE cache_type = p_type AND site_id = p_site AND target_id = p_target AND status = 'valid';
    IF p_generating IS NOT NULL THEN
        UPDATE biz.ai_cache
            SET status = 'valid', result_json = p_result, triggered_by = p_by, created_at = v_now,
                expires_at = p_expires
            WHERE id = p_generating AND cache_type = p_type AND site_id = p_site AND target_id = p_target
                AND status = 'generating'
            RETURNING id INTO stored;
    END IF;
    IF stored IS NULL THEN
        INSERT INTO biz.ai_cache (cache_type, site_id, target_id, result_json, triggered_by, created_at, expires_at)
            VALUES (p_type, p_site, p_target, p_result, p_by, v_now, p_expires) RETURNING id INTO stored;
    END IF;
END $$;

-- The document's DELETE + INSERT would let two writers at the same instant in; the unique day and one statement do not.
CREATE FUNCTION biz.ai_clue_write(
    p_site BIGINT, p_member BIGINT, p_day DATE, p_summary TEXT, p_clues JSONB, p_job BIGINT, OUT written BIGINT
) LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO biz.member_retention_clue (site_id, member_id, clue_date, summary, clues, trigger_job_id)
        VALUES (p_site, p_member, p_day, p_summary, p_clues, p_job)
        ON CONFLICT (site_id, member_id, clue_date) DO UPDATE
            SET summary = excluded.summary, clues = excluded.clues, trigger_job_id = excluded.trigger_job_id,
                source = excluded.source, updated_at = clock_timestamp()
        RETURNING id INTO written;
END $$;
