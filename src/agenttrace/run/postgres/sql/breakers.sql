-- The state of a circuit breaker: asked before each attempt, told its outcome.

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
