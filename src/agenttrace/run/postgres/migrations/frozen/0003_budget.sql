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
