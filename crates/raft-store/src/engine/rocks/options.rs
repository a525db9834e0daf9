//! How the two databases of a node are tuned.
//!
//! They are two databases and not one because RocksDB decides write stalls, WAL syncs and recovery per
//! database: compaction debt of the tables must not stall the log, and the bytes of the tables must not ride
//! in the log's synced WAL.

use rocksdb::{
    BlockBasedIndexType, BlockBasedOptions, Cache, DBCompressionType, DBRecoveryMode, LruCacheOptions,
    Options,
};

use crate::engine::{EngineError, PREFIX};

const MIB: usize = 1 << 20;

/// What both databases have in common.
fn base_options() -> Options {
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_paranoid_checks(true);
    // Replay stops at the first bad record of the WAL. That is right for the unsynced end after a power
    // loss, where any garbage may lie; that no *synced* record was dropped is what the log's guard file
    // checks, and for the state what replaying the log repairs.
    options.set_wal_recovery_mode(DBRecoveryMode::PointInTime);
    // A WAL that had been synced and closed, but is missing or short, fails the start.
    options.set_track_and_verify_wals_in_manifest(true);
    // Every file stays open: no table is reopened in the middle of a read, and there are few of them.
    options.set_max_open_files(-1);
    // One flush and one compaction at a time, for machines of two cores.
    options.set_max_background_jobs(2);
    // Write out tables steadily, so that the WAL's sync does not wait behind a burst of dirty pages.
    options.set_bytes_per_sync(MIB as u64);
    options.set_compression_type(DBCompressionType::Lz4);
    options.set_max_log_file_size(4 * MIB);
    options.set_keep_log_file_num(4);
    options.set_stats_dump_period_sec(0);
    options
}

/// Options of the log database: appends of growing keys, deletion from the front, reads rarely.
pub(super) fn log() -> Options {
    let mut options = base_options();
    // 16 MiB, not the customary 64: an idle node keeps little memory, and four buffers still take seconds
    // of full load while a flush is in the way. Smaller ones would only make more files to purge.
    options.set_write_buffer_size(16 * MIB);
    options.set_max_write_buffer_number(4);
    options.set_max_total_wal_size(128 * MIB as u64);
    // WAL files are overwritten in turn, which spares each sync the update of a growing inode: a third off
    // the median, more off the tail. The price is that old records lie behind the end of the new ones, so a
    // damaged record looks like the end; that is what the guard file is for.
    options.set_recycle_log_file_num(4);
    // Entries flow through level 0 by being moved, never by being merged: their keys only grow.
    options.set_target_file_size_base(16 * MIB as u64);
    let mut table = BlockBasedOptions::default();
    // Readers are served by the tail in memory; the cache is for a follower that is far behind.
    table.set_block_cache(&Cache::new_lru_cache(4 * MIB));
    table.set_block_size(64 << 10);
    options.set_block_based_table_factory(&table);
    options
}

/// A cache in four parts. By default it has a part for each half megabyte, up to 64, and no block that is larger than a
/// part is ever kept; a handful of threads does not need so many locks.
fn few_shards(capacity: usize) -> Cache {
    let mut options = LruCacheOptions::default();
    options.set_capacity(capacity);
    options.set_num_shard_bits(2);
    Cache::new_lru_cache_opts(&options)
}

/// Options of the state database: point reads and short ranges over tables of small rows.
///
/// # Errors
/// RocksDB was built without the partitioner of fixed prefixes.
pub(super) fn state() -> Result<Options, EngineError> {
    // RocksDB has this by its name alone.
    let by_table = format!("sst_partitioner_factory={{id=SstPartitionerFixedPrefixFactory;length={PREFIX}}}");
    let mut options = base_options().get_options_from_string(by_table).map_err(EngineError::new)?;
    options.set_write_buffer_size(32 * MIB);
    options.set_max_write_buffer_number(3);
    options.set_max_total_wal_size(256 * MIB as u64);
    // What is written last is read and rewritten soonest; only what has sunk deep is worth the time of Zstd.
    let (none, fast, small) = (DBCompressionType::None, DBCompressionType::Lz4, DBCompressionType::Zstd);
    options.set_compression_per_level(&[none, fast, fast, small, small, small, small]);
    // What is merged goes into small files, none of which has rows of two tables. Tasks and what is kept of them have keys
    // that grow with time, so that a merge into the last level rewrites the few files that its rows fall into, and moves
    // those that lie behind everything as they are; a file of 64 MiB with the end of one table and the beginning of the next
    // would touch half of that level. So merges do not grow within ten minutes of full load. The level above
    // is kept small, for each merge out of level 0, whose files have rows of every table, rewrites most of it.
    options.set_target_file_size_base(8 * MIB as u64);
    options.set_max_bytes_for_level_base(96 * MIB as u64);
    let mut table = BlockBasedOptions::default();
    table.set_block_cache(&few_shards(64 * MIB));
    table.set_cache_index_and_filter_blocks(true);
    table.set_pin_l0_filter_and_index_blocks_in_cache(true);
    // Most reads ask for one key; ten bits a key spare 99 % of the fruitless ones a disk read.
    table.set_bloom_filter(10.0, false);
    // A file of small rows holds a million keys, and its filter is larger than a megabyte. In one piece it would be read
    // and summed up whole for a single key whenever it had to leave the cache, or had never found room in it: with a
    // million tasks in the table that was nine tenths of all time. In pieces only the one that is asked stays.
    table.set_index_type(BlockBasedIndexType::TwoLevelIndexSearch);
    table.set_partition_filters(true);
    table.set_metadata_block_size(4 << 10);
    table.set_pin_top_level_index_and_filter(true);
    table.set_format_version(6);
    options.set_block_based_table_factory(&table);
    // The same for rows that are still in memory, or nowhere.
    options.set_memtable_prefix_bloom_ratio(0.02);
    options.set_memtable_whole_key_filtering(true);
    // The due, ready and running tables and the expiries are queues: rows come and go at their heads. Files with a long
    // run of removals, one by one, are merged early, once no level is over its size, so that a scan from the head
    // passes a few hundred thousand marks as a rule. Shorter runs are in every file under load, and to merge for 4,096 in
    // 8,192 rows as well moved each merge on to the last level at once and rewrote most of that.
    options.add_compact_on_deletion_collector_factory(65_536, 58_000, 0.0);
    Ok(options)
}
