ALTER TABLE biz.ai_run_logs
    -- What the prompt was taken for; what a call used beyond it is learned.
    ADD COLUMN tokens_prompt INTEGER NOT NULL DEFAULT 0,
    -- The most that the call may take while it is open.
    ADD COLUMN tokens_ceiling INTEGER NOT NULL DEFAULT 0;
ALTER TABLE biz.ai_budget_days ADD COLUMN ceiling BIGINT NOT NULL DEFAULT 0;

-- The most that a call of an application used beside its prompt, by day: old days are forgotten, and a row changes
-- only when a call is larger than all of its day, so that settling calls do not wait for each other here.
CREATE TABLE biz.ai_app_sizes (
    app_type VARCHAR(30) NOT NULL,
    day DATE NOT NULL,
    largest INTEGER NOT NULL,
    PRIMARY KEY (app_type, day)
);
INSERT INTO biz.ai_app_sizes (app_type, day, largest)
    SELECT app_type, biz.ai_business_day(created_at), max(tokens_used) FROM biz.ai_run_logs
    WHERE status = 'success' AND tokens_used > 0 AND created_at > now() - interval '8 days' GROUP BY 1, 2;

CREATE FUNCTION biz.ai_learn_size(p_app_type TEXT, p_day DATE, p_size INTEGER) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM biz.ai_app_sizes AS s
                   WHERE s.app_type = p_app_type AND s.day = p_day AND s.largest >= p_size) THEN
        INSERT INTO biz.ai_app_sizes AS s (app_type, day, largest) VALUES (p_app_type, p_day, p_size)
            ON CONFLICT (app_type, day) DO UPDATE SET largest = greatest(s.largest, excluded.largest);
    END IF;
END $$;

CREATE OR REPLACE FUNCTION biz.ai_run_logs_account() RETURNS trigger LANGUAGE plpgsql AS $$
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
    v_ceiling BIGINT :=
        CASE WHEN new.status IN ('pending', 'running') THEN greatest(new.tokens_ceiling, new.tokens_reserved) ELSE 0 END
        - CASE WHEN old.status IN ('pending', 'running') THEN greatest(old.tokens_ceiling, old.tokens_reserved)
               ELSE 0 END;
BEGIN
    -- What was only guessed teaches nothing, unless it is all that an application ever says.
    IF new.call_key IS NOT NULL AND new.tokens_used > 0 AND new.tokens_used IS DISTINCT FROM old.tokens_used
            AND (new.status = 'success' OR (new.status IN ('failed', 'timeout') AND NOT new.tokens_estimated)) THEN
        PERFORM biz.ai_learn_size(new.app_type, v_day, greatest(new.tokens_used - new.tokens_prompt, 0));
    END IF;
    IF v_before = v_day THEN
        UPDATE biz.ai_budget_days AS t
            SET used = t.used + v_used, failed = t.failed + v_failed, reserved = t.reserved + v_reserved,
                ceiling = t.ceiling + v_ceiling
            WHERE t.day = v_day AND t.slot = v_slot;
        IF FOUND THEN
            RETURN NULL;
        END IF;
    END IF;
    -- The first of its day, or moved to another one. By day, so that two that charge the same days lock them in the
    -- same order.
    INSERT INTO biz.ai_budget_days AS t (day, slot, used, failed, reserved, ceiling)
        SELECT biz.ai_business_day(c.at), v_slot,
               sum(CASE WHEN c.status = 'success' THEN c.used ELSE 0 END),
               sum(CASE WHEN c.status IN ('success', 'pending', 'running') THEN 0 ELSE c.used END),
               sum(CASE WHEN c.status IN ('pending', 'running') THEN c.reserved ELSE 0 END),
               sum(CASE WHEN c.status IN ('pending', 'running') THEN c.ceiling ELSE 0 END)
        FROM (VALUES (old.created_at, old.status, -coalesce(old.tokens_used, 0), -old.tokens_reserved,
                      -greatest(old.tokens_ceiling, old.tokens_reserved)),
                     (new.created_at, new.status, coalesce(new.tokens_used, 0), new.tokens_reserved,
                      greatest(new.tokens_ceiling, new.tokens_reserved))
             ) AS c (at, status, used, reserved, ceiling)
        WHERE c.at IS NOT NULL GROUP BY 1 ORDER BY 1
        ON CONFLICT (day, slot) DO UPDATE SET used = t.used + excluded.used, failed = t.failed + excluded.failed,
                                              reserved = t.reserved + excluded.reserved,
                                              ceiling = t.ceiling + excluded.ceiling;
    RETURN NULL;
END $$;

DROP TRIGGER ai_run_logs_account_new ON biz.ai_run_logs;
DROP TRIGGER ai_run_logs_account_gone ON biz.ai_run_logs;
DROP TRIGGER ai_run_logs_account_changed ON biz.ai_run_logs;
CREATE CONSTRAINT TRIGGER ai_run_logs_account_new AFTER INSERT ON biz.ai_run_logs
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (new.tokens_used <> 0 OR new.tokens_reserved <> 0 OR new.tokens_ceiling <> 0)
    EXECUTE FUNCTION biz.ai_run_logs_account();
CREATE CONSTRAINT TRIGGER ai_run_logs_account_gone AFTER DELETE ON biz.ai_run_logs
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (old.tokens_used <> 0 OR old.tokens_reserved <> 0 OR old.tokens_ceiling <> 0)
    EXECUTE FUNCTION biz.ai_run_logs_account();
CREATE CONSTRAINT TRIGGER ai_run_logs_account_changed AFTER UPDATE ON biz.ai_run_logs
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    -- From pending to running nothing changes for the budget.
    WHEN ((replace(old.status, 'pending', 'running'), old.tokens_used, old.tokens_reserved, old.tokens_ceiling,
           old.created_at)
          IS DISTINCT FROM
          (replace(new.status, 'pending', 'running'), new.tokens_used, new.tokens_reserved, new.tokens_ceiling,
           new.created_at))
    EXECUTE FUNCTION biz.ai_run_logs_account();

CREATE OR REPLACE FUNCTION biz.ai_set_business_zone(p_zone TEXT) RETURNS void LANGUAGE plpgsql AS $$
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
    INSERT INTO biz.ai_budget_days (day, slot, used, failed, reserved, ceiling)
        SELECT biz.ai_business_day(created_at), 0,
               coalesce(sum(tokens_used) FILTER (WHERE status = 'success'), 0),
               coalesce(sum(tokens_used) FILTER (WHERE status NOT IN ('success', 'pending', 'running')), 0),
               coalesce(sum(tokens_reserved) FILTER (WHERE status IN ('pending', 'running')), 0),
               coalesce(sum(greatest(tokens_ceiling, tokens_reserved)) FILTER (WHERE status IN ('pending', 'running')),
                        0)
        FROM biz.ai_run_logs GROUP BY 1;
END $$;
-- Calls that are open while this is installed have no ceiling yet.
UPDATE biz.ai_budget_days SET ceiling = reserved;
