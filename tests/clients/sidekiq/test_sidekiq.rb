# SPDX-License-Identifier: BSD-3-Clause
# Background jobs with Sidekiq. Usage: ruby test_sidekiq.rb PORT
#
# The workers are a separate process, as in production: this file again, loaded by Sidekiq's own program.
# Every check raises on failure; the last line is "N checks passed". Run by tests/clients/main.rs.
require "sidekiq"
require "sidekiq/api"
require "tmpdir"

PORT = Integer(ENV["SIDEKIQ_TEST_PORT"] || ARGV.fetch(0))
OPTIONS = { url: "redis://127.0.0.1:#{PORT}/0" }.freeze
Sidekiq.configure_client { |config| config.redis = OPTIONS }
Sidekiq.configure_server do |config|
  config.redis = OPTIONS
  # Poll for due jobs often, so that the test does not take minutes.
  config.respond_to?(:average_scheduled_poll_interval=) ? config.average_scheduled_poll_interval = 1 : config.options[:average_scheduled_poll_interval] = 1
end
Sidekiq.logger.level = Logger::WARN

class Count
  include Sidekiq::Worker
  sidekiq_options retry: false

  def perform(key, amount)
    Sidekiq.redis { |redis| redis.incrby(key, amount) }
  end
end

class FailsTwice
  include Sidekiq::Worker
  sidekiq_options retry: 5
  sidekiq_retry_in { |_count| 1 }

  def perform(key)
    tries = Sidekiq.redis { |redis| redis.incr(key) }
    raise "not yet" if tries < 3
  end
end

class Hopeless
  include Sidekiq::Worker
  sidekiq_options retry: 0

  def perform
    raise "never"
  end
end

class Slow
  include Sidekiq::Worker

  def perform(key)
    Sidekiq.redis { |redis| redis.incr(key) }
    sleep 600 unless Sidekiq.redis { |redis| redis.get("hurry") }
    Sidekiq.redis { |redis| redis.incr("#{key}:done") }
  end
end

return if ENV["SIDEKIQ_TEST_PORT"]

$checks = 0

def check(got, expected, what)
  raise "#{what}: got #{got.inspect}, expected #{expected.inspect}" unless got == expected
  $checks += 1
end

def await(what)
  finish = Time.now + 60
  until yield
    raise "timed out waiting for #{what}" if Time.now > finish
    sleep 0.05
  end
end

def number(key)
  Sidekiq.redis { |redis| redis.get(key) }.to_i
end

def start_workers(folder)
  program = Gem.bin_path("sidekiq", "sidekiq")
  spawn({ "SIDEKIQ_TEST_PORT" => PORT.to_s }, "ruby", program, "-r", File.expand_path(__FILE__), "-c", "5", "-q", "urgent,3", "-q",
        "default", "-t", "4", chdir: folder, out: "#{folder}/log", err: %i[child out])
end

def scenario(folder)
  Sidekiq.redis(&:flushall)
  workers = start_workers(folder)
  await("the workers") { Sidekiq::ProcessSet.new.size == 1 }
  check(Sidekiq::ProcessSet.new.first["concurrency"], 5, "concurrency that the process reports")

  300.times { |at| Count.perform_async("sum", at) }
  await("300 jobs") { number("sum") == 299 * 300 / 2 }
  Sidekiq::Client.push_bulk("class" => Count, "queue" => "urgent", "args" => Array.new(500) { ["bulk", 1] })
  await("500 jobs") { number("bulk") == 500 }
  check(number("bulk"), 500, "each job runs once")
  await("empty queues") { Sidekiq::Stats.new.enqueued.zero? }
  await("statistics") { Sidekiq::Stats.new.processed == 800 }
  check(Sidekiq::Stats.new.failed, 0, "no failures")

  Count.perform_in(3600, "later", 1)
  check([Sidekiq::ScheduledSet.new.size, number("later")], [1, 0], "a scheduled job")
  Sidekiq::ScheduledSet.new.first.reschedule(Time.now + 0.5)
  await("the rescheduled job") { number("later") == 1 }
  check(Sidekiq::ScheduledSet.new.size, 0, "no job is scheduled")

  FailsTwice.perform_async("tries")
  await("the third try") { number("tries") == 3 }
  await("an empty retry set") { Sidekiq::RetrySet.new.size.zero? }
  check(number("tries"), 3, "tries")
  Hopeless.perform_async
  await("a dead job") { Sidekiq::DeadSet.new.size == 1 }
  check(Sidekiq::DeadSet.new.first["error_message"], "never", "error of the dead job")
  Sidekiq::DeadSet.new.clear
  check(Sidekiq::DeadSet.new.size, 0, "no dead jobs")
  await("the count of failures") { Sidekiq::Stats.new.failed == 3 }

  # A process that is told to stop requeues its unfinished jobs. First it waits for longer than its idle
  # threads wait for jobs: otherwise they would take the jobs out again.
  2.times { Slow.perform_async("slow") }
  await("two long jobs") { number("slow") == 2 }
  Process.kill("TERM", workers)
  Process.wait(workers)
  check(Sidekiq::Queue.new("default").size, 2, "both jobs are requeued")
  Sidekiq.redis { |redis| redis.set("hurry", 1) }
  workers = start_workers(folder)
  await("both jobs to finish") { number("slow:done") == 2 }
  check(number("slow"), 4, "both jobs are started again")
  Sidekiq::Queue.new("default").clear
  check(Sidekiq::Queue.all.sum(&:size), 0, "queues are empty")
ensure
  if workers
    begin
      Process.kill("KILL", workers)
      Process.wait(workers)
    rescue SystemCallError
      nil
    end
  end
end

Dir.mktmpdir do |folder|
  scenario(folder)
rescue StandardError
  puts File.read("#{folder}/log") if File.exist?("#{folder}/log")
  raise
end
puts "#{$checks} checks passed"
