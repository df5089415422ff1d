-- Retention clues: one row a member and day.

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
