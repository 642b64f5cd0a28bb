/**
 * The types of the page, for readers and editors: what the service sends, and the state of the page.
 *
 * @typedef {object} Video
 * @property {string} id
 * @property {string} name
 * @property {"dataset" | "clip" | "upload"} source
 * @property {number | null} length_s
 * @property {number | null} width
 * @property {number | null} height
 * @property {string | null} media_type  null: browsers cannot play it, the service sends frames
 * @property {boolean} has_frames  false: only its features are known
 * @property {number | null} expires_s  seconds until the service deletes it, when it answered
 * @property {number} [asked_at]  when the page got this, in milliseconds
 *
 * @typedef {object} Info
 * @property {string} version
 * @property {{name: string, method: string, backend: string, data_label: string, data_fingerprint: string}} planner
 * @property {number[]} horizons
 * @property {string[]} actions
 * @property {string[]} procedures  that a query can name
 * @property {string[]} evidence  that the planner understands: start, goal, history, words, procedure
 * @property {boolean} reasons  whether it can say why
 * @property {boolean} can_follow  whether it can follow a video
 * @property {boolean} annotates  whether steps of videos can be annotated
 * @property {{name: string, fingerprint: string | null, pictures: boolean} | null} encoder
 * @property {string | null} encoder_problem
 * @property {{upload_bytes: number, upload_s: number, picture_bytes: number, samples: number, plans: number}} limits
 * @property {{video: string, start: number, goal: number} | null} example
 * @property {boolean} step_pictures
 * @property {boolean} needs_token
 *
 * @typedef {{t: number} | {picture: string, name: string}} Moment  a second of the chosen video, or a picture
 * @typedef {"start" | "goal"} End
 * @typedef {"moment" | "words" | "none"} GoalKind
 * @typedef {"without" | "with" | "first" | "last" | "done"} ConditionKind
 * @typedef {{kind: ConditionKind, step: string}} Condition
 *
 * @typedef {{steps: string[], probability: number}} Plan
 * @typedef {{index: number, picture: {video: string, t: number} | null}} StepFacts
 *
 * @typedef {object} Reasons  everything sums to the log probability of a plan
 * @property {{step: string, addends: Record<string, number>}[]} steps
 * @property {number} length
 * @property {number} conditions
 * @property {number} normaliser
 * @property {number} log_probability
 *
 * @typedef {{headline: string, change: string | null}} WhyWords
 *
 * @typedef {object} Answer
 * @property {string[]} plan
 * @property {number} plan_probability
 * @property {"chain" | "samples"} source
 * @property {Plan[]} plans
 * @property {{steps: string[], count: number}[]} samples
 * @property {{steps: number, probability: number}[]} [lengths]  where plans of several lengths are possible
 * @property {string[]} [understood]  how words were understood
 * @property {Reasons[]} [why]  of every plan, if asked for
 * @property {WhyWords[]} [why_words]  the same in sentences
 * @property {{svg: string} | null} graph
 * @property {Record<string, StepFacts>} steps
 *
 * @typedef {{video: string, t: number} | {picture: string}} MomentRequest
 *
 * @typedef {object} ConditionsRequest
 * @property {string[]} [without]
 * @property {string[]} [with]
 * @property {string} [first]
 * @property {string} [last]
 * @property {string[]} [done]
 *
 * @typedef {object} PlanRequest
 * @property {MomentRequest} start
 * @property {MomentRequest | {text: string}} [goal]
 * @property {string} [procedure]
 * @property {boolean} [history]
 * @property {number} [horizon]
 * @property {ConditionsRequest} [conditions]
 * @property {boolean} [why]
 * @property {number} number
 * @property {number} seed
 * @property {"horizontal" | "vertical"} [graph]
 *
 * @typedef {object} FollowRequest
 * @property {string} video
 * @property {MomentRequest | {text: string}} [goal]
 * @property {string} [procedure]
 * @property {number} [horizon]
 * @property {ConditionsRequest} [conditions]
 * @property {number} [from]  second; earlier moments are not sent
 *
 * @typedef {object} FollowedMoment  a second of a video that is followed
 * @property {number} second
 * @property {{step: string, start_s: number, end_s: number, probability: number}[]} done
 * @property {{step: string | null, probability: number}[]} now  the most probable first; null: no step
 * @property {{plan: string[], plan_probability: number, plans: Plan[], understood?: string[]}} left
 *
 * @typedef {object} Following
 * @property {FollowedMoment[]} moments  by second, as far as they have come
 * @property {boolean} isWhole  whether there are no more
 * @property {Problem | null} problem
 *
 * @typedef {{stage: "encoding" | "planning", done: number, total: number}} Progress
 *
 * @typedef {object} Problem  an error as the page shows it
 * @property {string} message
 * @property {string | null} hint
 * @property {(() => void) | null} retry  what "Try again" does
 * @property {string} [code]  of the service
 *
 * @typedef {{step: string, start_s: number, end_s: number}} AnnotatedStep
 * @typedef {{task: string, steps: AnnotatedStep[]}} Annotation  what one annotator says about one video
 * @typedef {{id: string, name: string, task: string, num_steps: number, problem: string | null}} AnnotatedVideo
 * @typedef {{start_s: number, end_s: number, step: string | null, probability: number | null}} Suggestion
 *
 * @typedef {object} Job  an extraction or a training
 * @property {string} id
 * @property {"extract" | "train"} kind
 * @property {"running" | "done" | "failed" | "cancelled"} status
 * @property {{what: string, done: number, total: number, about: string} | null} progress
 * @property {string | null} message
 * @property {string | null} planner
 *
 * @typedef {object} Annotating  the state of the page that annotates
 * @property {string} annotator
 * @property {string[]} annotators
 * @property {AnnotatedVideo[]} videos
 * @property {string[]} knownSteps  the most frequent first
 * @property {string[]} knownTasks
 * @property {Annotation} annotation  of the chosen video
 * @property {AnnotatedStep | null} selected
 * @property {number | null} marked  where a step begins that has no end yet
 * @property {{start_s: number, end_s: number, step: string, replaces: AnnotatedStep | null} | null} edited
 * @property {"loading" | "saved" | "saving" | "retrying" | "refused" | "conflict"} saving
 * @property {string | null} savingProblem
 * @property {Annotation | null} theirs  what is stored, where somebody else was first
 * @property {Suggestion[] | null} suggestions  that are neither accepted nor skipped; null: not asked for
 * @property {string | null} suggesting  how far they are computed, or what went wrong
 * @property {number} learnedFrom  annotated videos that they were learned from; 0: visual changes
 * @property {number} undoable
 * @property {number} redoable
 * @property {Job | null} job
 *
 * @typedef {object} State
 * @property {Info | null} info
 * @property {Video[]} videos
 * @property {Video | null} video  the chosen one
 * @property {boolean} cannotPlay  the browser gave up on the chosen video
 * @property {number | null} frameS  seconds of a frame, as measured while the video plays
 * @property {number} playhead  seconds
 * @property {boolean} isPlaying
 * @property {Moment | null} start
 * @property {Moment | null} goal  where `goalKind` is moment
 * @property {GoalKind} goalKind
 * @property {string} goalText  where `goalKind` is words
 * @property {string | null} procedure
 * @property {boolean} history  whether the video before the start counts
 * @property {number | null} horizon  number of steps; null: any
 * @property {Condition[]} conditions
 * @property {boolean} why  whether the reasons are unfolded
 * @property {number} seed
 * @property {number} number  of plans to ask for
 * @property {{name: string, share: number, cancel: () => void} | null} upload
 * @property {Progress | null} planning  null: no request is under way
 * @property {Answer | null} answer
 * @property {number} chosen  index of the plan that is shown
 * @property {{why: Reasons[], words: WhyWords[]} | null} reasons  of the plans of the answer; null: not known yet
 * @property {Problem | null} whyProblem
 * @property {"plan" | "follow"} mode
 * @property {Following | null} following  while `mode` is follow
 * @property {Annotating | null} annotating  on the page that annotates
 * @property {Problem | null} videoProblem  with the page, a video or an upload
 * @property {Problem | null} planProblem
 */

export {};
