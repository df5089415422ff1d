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
