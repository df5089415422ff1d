-- The admission of a call, and of another attempt after one that was billed.

-- One admission: breaker, rate, budget, and the row of the run log, whatever the answer is; only 'waiting' leaves no
-- row: the caller asks again (p_asked), and its place in the rate window is kept.
CREATE FUNCTION biz.ai_admit(
    p_call_key UUID, p_process UUID, p_app_id TEXT, p_app_type TEXT, p_trigger_type TEXT,
    p_site BIGINT, p_member BIGINT, p_user TEXT, p_prompt TEXT, p_session TEXT, p_conversation BIGINT,
    p_job BIGINT, p_step TEXT, p_claim INTEGER,
    p_prompt_tokens INTEGER, p_estimate INTEGER, p_ceiling INTEGER, p_waits BOOLEAN, p_asked BOOLEAN,
    p_scope TEXT, p_rate_key TEXT, p_limit INTEGER, p_window INTERVAL,
    p_recovery INTERVAL, p_lease INTERVAL, p_daily BIGINT, p_monthly BIGINT, p_now TIMESTAMPTZ DEFAULT NULL,
    p_app_limit INTEGER DEFAULT NULL, p_app_window INTERVAL DEFAULT NULL,
    OUT verdict TEXT, OUT log_id BIGINT, OUT retry_after DOUBLE PRECISION, OUT message TEXT, OUT reserved INTEGER
) LANGUAGE plpgsql AS $$
DECLARE
    r RECORD;
    v_now TIMESTAMPTZ;
    v_today DATE;
    v_ceiling INTEGER := 0;
BEGIN
    retry_after := 0;
    reserved := 0;
    -- A reservation that a crash of the server loses is lost with its call; settling writes the row anew.
    PERFORM set_config('synchronous_commit', 'off', true);
    SELECT l.id, l.status, l.error_message, l.finished_at, l.tokens_reserved INTO r
        FROM biz.ai_run_logs AS l WHERE l.call_key = p_call_key;
    IF FOUND THEN
        -- Asked before; the answer got lost. How long a refused one had to wait is not kept: at most this long.
        log_id := r.id;
        reserved := r.tokens_reserved;
        verdict := CASE WHEN r.status = 'running' THEN 'admitted' ELSE r.status END;
        message := r.error_message;
        v_now := coalesce(p_now, clock_timestamp());
        IF verdict = 'rate_limited' THEN
            retry_after := greatest(0, extract(epoch FROM r.finished_at + greatest(p_window, p_app_window) - v_now));
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
    ELSIF NOT p_asked THEN
        r := biz.ai_rate_hit(p_scope, p_rate_key, p_limit, p_window, p_now);
        IF NOT r.allowed THEN
            verdict := 'rate_limited';
            retry_after := r.retry_after;
            message := format('%s calls in %s s are all that a %s may make; the next one fits in %s s', p_limit,
                              extract(epoch FROM p_window)::double precision, p_scope, ceil(retry_after));
        ELSIF p_app_limit IS NOT NULL THEN
            r := biz.ai_rate_hit('app', p_app_id, p_app_limit, p_app_window, p_now);
            IF NOT r.allowed THEN
                verdict := 'rate_limited';
                retry_after := r.retry_after;
                message := format('%s calls in %s s are all that %s may get; the next one fits in %s s', p_app_limit,
                                  extract(epoch FROM p_app_window)::double precision, p_app_type, ceil(retry_after));
                -- A refused call does not count: the hit that was just added to the first window is removed.
                UPDATE biz.ai_rate_windows SET hits = trim_array(hits, 1)
                    WHERE scope = p_scope AND key = p_rate_key AND span = p_window;
            END IF;
        END IF;
    END IF;
    IF verdict = 'admitted' THEN
        -- One at a time from here: what one reserves is seen by the next, at midnight too. (Any number that is ours.)
        PERFORM pg_advisory_xact_lock(1634158692);
    END IF;
    v_now := coalesce(p_now, clock_timestamp());
    IF verdict = 'admitted' THEN
        v_today := biz.ai_business_day(v_now);
        -- An outlier is reserved for two days, and not thought impossible for seven.
        SELECT max(s.largest) FILTER (WHERE s.day >= v_today - 1) AS usual, max(s.largest) AS most INTO r
            FROM biz.ai_app_sizes AS s WHERE s.app_type = p_app_type AND s.day > v_today - 7 AND s.day <= v_today;
        reserved := least(coalesce(p_prompt_tokens::bigint + r.usual, p_estimate), 2147483647);
        v_ceiling := least(greatest(reserved, p_prompt_tokens::bigint + greatest(p_ceiling, r.most), 1), 2147483647);
        r := biz.ai_budget_check(v_now, p_daily, p_monthly, reserved, v_ceiling, 0, 0);
        IF r.obstacle IS NOT NULL AND p_waits THEN
            verdict := 'waiting';
            message := r.obstacle;
        ELSIF r.refusal IS NOT NULL OR r.obstacle IS NOT NULL THEN
            verdict := 'budget_exceeded';
            message := coalesce(r.refusal, r.obstacle);
        END IF;
    END IF;
    IF verdict IN ('rate_limited', 'budget_exceeded', 'waiting') THEN
        -- The probe slot that this call may just have taken is free again.
        PERFORM biz.ai_breaker_release(p_app_id, p_call_key);
        reserved := 0;
        v_ceiling := 0;
    END IF;
    IF verdict = 'waiting' THEN
        RETURN;
    END IF;
    -- pending and running are one moment here, so nobody could see the row as pending.
    INSERT INTO biz.ai_run_logs (
        call_key, process_id, site_id, app_type, trigger_type, member_id, user_id, request_prompt, session_id,
        conversation_id, trigger_job_id, step, tokens_prompt, tokens_reserved, tokens_ceiling, status, error_message,
        created_at, finished_at
    ) VALUES (
        p_call_key, p_process, p_site, p_app_type, p_trigger_type, p_member, p_user, left(p_prompt, 2000), p_session,
        p_conversation, p_job, p_step, p_prompt_tokens, reserved, v_ceiling,
        CASE WHEN verdict = 'admitted' THEN 'running' ELSE verdict END, message,
        v_now, CASE WHEN verdict = 'admitted' THEN NULL ELSE v_now END
    ) RETURNING id INTO log_id;
END $$;

-- Another attempt after one that was billed: it needs as much again, on top of what is gone. NULL: it may be made.
CREATE FUNCTION biz.ai_admit_again(
    p_call_key UUID, p_billed INTEGER, p_daily BIGINT, p_monthly BIGINT, p_now TIMESTAMPTZ DEFAULT NULL,
    OUT refusal TEXT
) LANGUAGE plpgsql AS $$
DECLARE
    l RECORD;
    r RECORD;
    v_reserved INTEGER;
    v_ceiling INTEGER;
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    PERFORM pg_advisory_xact_lock(1634158692);
    SELECT t.id, t.created_at, t.tokens_reserved, greatest(t.tokens_ceiling, t.tokens_reserved) AS ceiling INTO l
        FROM biz.ai_run_logs AS t WHERE t.call_key = p_call_key AND t.status = 'running' FOR UPDATE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    v_reserved := least(l.tokens_reserved::bigint + p_billed, 2147483647);
    v_ceiling := least(l.ceiling::bigint + p_billed, 2147483647);
    -- The day that pays is that of the call, also after midnight.
    r := biz.ai_budget_check(l.created_at, p_daily, p_monthly, v_reserved, v_ceiling, l.tokens_reserved, l.ceiling);
    refusal := coalesce(r.refusal, r.obstacle);
    IF refusal IS NULL THEN
        UPDATE biz.ai_run_logs SET tokens_reserved = v_reserved, tokens_ceiling = v_ceiling WHERE id = l.id;
    END IF;
END $$;
